// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whatever a child of fork calls with its parent's objects is refused: their connections and queues
// are the parent's.
#include <gmock/gmock.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <cstring>
#include <iostream>
#include <string>

#include "../child.hpp"
#include "opened_for_connections.hpp"

namespace gaudi::fi::test {
namespace {

/// Which calls were taken that must not be.
class taken_calls {
 public:
  void see(const char* call, ssize_t ret) {
    if (ret != -FI_EOPBADSTATE) text_ += std::string(call) + ": " + std::to_string(ret) + "\n";
  }
  /// Tells of them.
  [[nodiscard]] bool none() const {
    std::cerr << text_ << std::flush;
    return text_.empty();
  }

 private:
  std::string text_;
};

/// One byte of this process, in all the ways in which operations are told of memory.
struct arguments {
  char byte = 0;
  iovec part{&byte, 1};
  fi_rma_iov range{0, 1, 7};
  fi_ioc element{&byte, 1};
  fi_rma_ioc elements{0, 1, 7};
  void* context = nullptr;
  fi_addr_t to = 0;
  fi_msg message{&part, nullptr, 1, to, context, 0};
  fi_msg_tagged tagged{&part, nullptr, 1, to, 5, 0, context, 0};
  fi_msg_rma rma{&part, nullptr, 1, to, &range, 1, context, 0};
  fi_msg_atomic atomic{&element, nullptr, 1, to, &elements, 1, FI_UINT8, FI_SUM, context, 0};
};

void try_messages(taken_calls& calls, fid_ep* ep, arguments& a) {
  calls.see("send", fi_send(ep, &a.byte, 1, nullptr, a.to, a.context));
  calls.see("sendv", fi_sendv(ep, &a.part, nullptr, 1, a.to, a.context));
  calls.see("sendmsg", fi_sendmsg(ep, &a.message, 0));
  calls.see("inject", fi_inject(ep, &a.byte, 1, a.to));
  calls.see("senddata", fi_senddata(ep, &a.byte, 1, nullptr, 3, a.to, a.context));
  calls.see("injectdata", fi_injectdata(ep, &a.byte, 1, 3, a.to));
}

void try_receives(taken_calls& calls, fid_ep* ep, arguments& a) {
  calls.see("recv", fi_recv(ep, &a.byte, 1, nullptr, a.to, a.context));
  calls.see("recvv", fi_recvv(ep, &a.part, nullptr, 1, a.to, a.context));
  calls.see("recvmsg", fi_recvmsg(ep, &a.message, 0));
}

void try_tagged_messages(taken_calls& calls, fid_ep* ep, arguments& a) {
  calls.see("tsend", fi_tsend(ep, &a.byte, 1, nullptr, a.to, 5, a.context));
  calls.see("tsendv", fi_tsendv(ep, &a.part, nullptr, 1, a.to, 5, a.context));
  calls.see("tsendmsg", fi_tsendmsg(ep, &a.tagged, 0));
  calls.see("tinject", fi_tinject(ep, &a.byte, 1, a.to, 5));
  calls.see("tsenddata", fi_tsenddata(ep, &a.byte, 1, nullptr, 3, a.to, 5, a.context));
  calls.see("tinjectdata", fi_tinjectdata(ep, &a.byte, 1, 3, a.to, 5));
}

void try_tagged_receives(taken_calls& calls, fid_ep* ep, arguments& a) {
  calls.see("trecv", fi_trecv(ep, &a.byte, 1, nullptr, a.to, 5, 0, a.context));
  calls.see("trecvv", fi_trecvv(ep, &a.part, nullptr, 1, a.to, 5, 0, a.context));
  calls.see("trecvmsg", fi_trecvmsg(ep, &a.tagged, 0));
}

void try_rma(taken_calls& calls, fid_ep* ep, arguments& a) {
  calls.see("write", fi_write(ep, &a.byte, 1, nullptr, a.to, 0, 7, a.context));
  calls.see("writev", fi_writev(ep, &a.part, nullptr, 1, a.to, 0, 7, a.context));
  calls.see("writemsg", fi_writemsg(ep, &a.rma, 0));
  calls.see("inject_write", fi_inject_write(ep, &a.byte, 1, a.to, 0, 7));
  calls.see("writedata", fi_writedata(ep, &a.byte, 1, nullptr, 3, a.to, 0, 7, a.context));
  calls.see("inject_writedata", fi_inject_writedata(ep, &a.byte, 1, 3, a.to, 0, 7));
  calls.see("read", fi_read(ep, &a.byte, 1, nullptr, a.to, 0, 7, a.context));
  calls.see("readv", fi_readv(ep, &a.part, nullptr, 1, a.to, 0, 7, a.context));
  calls.see("readmsg", fi_readmsg(ep, &a.rma, 0));
}

void try_atomics(taken_calls& calls, fid_ep* ep, arguments& a) {
  char result = 0;
  fi_ioc results{&result, 1};
  calls.see("atomic", fi_atomic(ep, &a.byte, 1, nullptr, a.to, 0, 7, FI_UINT8, FI_SUM, a.context));
  calls.see("atomicv",
            fi_atomicv(ep, &a.element, nullptr, 1, a.to, 0, 7, FI_UINT8, FI_SUM, a.context));
  calls.see("atomicmsg", fi_atomicmsg(ep, &a.atomic, 0));
  calls.see("inject_atomic", fi_inject_atomic(ep, &a.byte, 1, a.to, 0, 7, FI_UINT8, FI_SUM));
  calls.see("fetch_atomic", fi_fetch_atomic(ep, &a.byte, 1, nullptr, &result, nullptr, a.to, 0, 7,
                                            FI_UINT8, FI_SUM, a.context));
  calls.see("fetch_atomicmsg", fi_fetch_atomicmsg(ep, &a.atomic, &results, nullptr, 1, 0));
  a.atomic.op = FI_CSWAP;
  calls.see("compare_atomic",
            fi_compare_atomic(ep, &a.byte, 1, nullptr, &a.byte, nullptr, &result, nullptr, a.to, 0,
                              7, FI_UINT8, FI_CSWAP, a.context));
  calls.see("compare_atomicmsg",
            fi_compare_atomicmsg(ep, &a.atomic, &a.element, nullptr, 1, &results, nullptr, 1, 0));
}

void try_options(taken_calls& calls, fid_ep* ep) {
  std::size_t value = 0;
  std::size_t length = sizeof value;
  std::uint64_t flags = FI_TRANSMIT;
  calls.see("getopt", fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length));
  calls.see("setopt", fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, length));
  calls.see("control", fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
  calls.see("enable", fi_enable(ep));
  calls.see("cancel", fi_cancel(&ep->fid, nullptr));
}

void try_registration(taken_calls& calls, fid_domain* domain, arguments& a) {
  fid_mr* mr = nullptr;
  fi_mr_attr attr{};
  attr.mr_iov = &a.part;
  attr.iov_count = 1;
  attr.access = FI_SEND;
  calls.see("mr_reg", fi_mr_reg(domain, &a.byte, 1, FI_SEND, 0, 9, 0, &mr, nullptr));
  calls.see("mr_regv", fi_mr_regv(domain, &a.part, 1, FI_SEND, 0, 9, 0, &mr, nullptr));
  calls.see("mr_regattr", fi_mr_regattr(domain, &attr, 0, &mr));
}

void try_extensions(taken_calls& calls, fid_domain* domain, const fi_gaudi_ops& gaudi) {
  std::uint64_t address = 0;
  int number = 0;
  fi_gaudi_device_attr attributes{};
  fi_gaudi_cache_stats cached{};
  calls.see("query_device", gaudi.query_device(domain, &attributes));
  calls.see("alloc", gaudi.alloc(domain, 4096, &address));
  calls.see("free", gaudi.free(domain, address));
  calls.see("copy_test", gaudi.copy_test(domain, 1));
  calls.see("copy_wait", gaudi.copy_wait(domain, 1, 0));
  calls.see("device_count", gaudi.device_count(domain, &number));
  calls.see("select_device", gaudi.select_device(domain, 0));
  calls.see("cache_stats", gaudi.cache_stats(domain, &cached));
}

TEST(a_child_of_fork, has_none_of_its_parents_endpoints) {
  const opened o(direct_mode, FI_VERSION(1, 17), FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
  const endpoint_set set(o, FI_TRANSMIT | FI_RECV, FI_WAIT_FD);
  EXPECT_TRUE(holds_in_child([&] {
    taken_calls calls;
    arguments a;
    fid_ep* const ep = set.ep.get();
    try_messages(calls, ep, a);
    try_receives(calls, ep, a);
    try_tagged_messages(calls, ep, a);
    try_tagged_receives(calls, ep, a);
    try_rma(calls, ep, a);
    try_atomics(calls, ep, a);
    try_options(calls, ep);
    calls.see("bind", fi_ep_bind(ep, &set.cq->fid, FI_RECV));
    return calls.none() && fi_close(&ep->fid) == 0;
  }));
}

TEST(a_child_of_fork, opens_nothing_in_its_parents_domain) {
  const opened o;
  const fi_gaudi_ops& gaudi = o.ops();
  EXPECT_TRUE(holds_in_child([&] {
    taken_calls calls;
    arguments a;
    fid_ep* ep = nullptr;
    fid_stx* stx = nullptr;
    fid_cq* cq = nullptr;
    fid_cntr* cntr = nullptr;
    fid_poll* poll = nullptr;
    fi_cq_attr queue{};
    fi_cntr_attr counter{};
    fi_poll_attr set{};
    fid_domain* const domain = o.domain.get();
    calls.see("endpoint", fi_endpoint(domain, o.info.get(), &ep, nullptr));
    calls.see("srx", fi_srx_context(domain, o.info->rx_attr, &ep, nullptr));
    calls.see("stx", fi_stx_context(domain, o.info->tx_attr, &stx, nullptr));
    calls.see("cq", fi_cq_open(domain, &queue, &cq, nullptr));
    calls.see("cntr", fi_cntr_open(domain, &counter, &cntr, nullptr));
    calls.see("poll", fi_poll_open(domain, &set, &poll));
    try_registration(calls, domain, a);
    try_extensions(calls, domain, gaudi);
    return calls.none() && fi_close(&domain->fid) == 0;
  }));
}

TEST(a_child_of_fork, reads_none_of_its_parents_queues) {
  const opened o;
  const endpoint_set set(o, FI_TRANSMIT | FI_RECV, FI_WAIT_FD);
  fi_cntr_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  fid_cntr* opened_counter = nullptr;
  ASSERT_EQ(fi_cntr_open(o.domain.get(), &attr, &opened_counter, nullptr), 0);
  const unique_fid<fid_cntr> counter(opened_counter);
  fid_eq* opened_events = nullptr;
  fi_eq_attr events_attr{};
  events_attr.wait_obj = FI_WAIT_FD;
  ASSERT_EQ(fi_eq_open(o.fabric.get(), &events_attr, &opened_events, nullptr), 0);
  const unique_fid<fid_eq> events(opened_events);
  EXPECT_TRUE(holds_in_child([&] {
    taken_calls calls;
    fi_cq_tagged_entry entry{};
    fi_cq_err_entry error{};
    fi_addr_t source = 0;
    std::uint32_t event = 0;
    fi_eq_entry told{};
    fi_eq_err_entry failure{};
    int fd = -1;
    calls.see("cq_read", fi_cq_read(set.cq.get(), &entry, 1));
    calls.see("cq_readfrom", fi_cq_readfrom(set.cq.get(), &entry, 1, &source));
    calls.see("cq_readerr", fi_cq_readerr(set.cq.get(), &error, 0));
    calls.see("cq_sread", fi_cq_sread(set.cq.get(), &entry, 1, nullptr, 0));
    calls.see("cq_control", fi_control(&set.cq->fid, FI_GETWAIT, &fd));
    calls.see("cntr_wait", fi_cntr_wait(counter.get(), 1, 0));
    calls.see("cntr_control", fi_control(&counter->fid, FI_GETWAIT, &fd));
    calls.see("eq_read", fi_eq_read(events.get(), &event, &told, sizeof told, 0));
    calls.see("eq_readerr", fi_eq_readerr(events.get(), &failure, 0));
    calls.see("eq_sread", fi_eq_sread(events.get(), &event, &told, sizeof told, 0, 0));
    calls.see("eq_control", fi_control(&events->fid, FI_GETWAIT, &fd));
    return calls.none() && fi_close(&set.cq->fid) == 0 && fi_close(&counter->fid) == 0 &&
           fi_close(&events->fid) == 0;
  }));
}

// What these forward is the core's, and a call would end there.
class a_child_of_fork_with_connected_endpoints : public opened_for_connections {
 protected:
  a_child_of_fork_with_connected_endpoints() {
    fid_pep* p = nullptr;
    EXPECT_EQ(fi_passive_ep(fabric.get(), info.get(), &p, nullptr), 0);
    listener.reset(p);
    fid_ep* e = nullptr;
    EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &e, nullptr), 0);
    ep.reset(e);
  }

  unique_fid<fid_pep> listener;
  unique_fid<fid_ep> ep;
};

TEST_F(a_child_of_fork_with_connected_endpoints, moves_nothing_by_them) {
  EXPECT_TRUE(holds_in_child([&] {
    taken_calls calls;
    arguments a;
    try_messages(calls, ep.get(), a);
    try_receives(calls, ep.get(), a);
    if (ep->rma) try_rma(calls, ep.get(), a);
    if (ep->tagged) {
      try_tagged_messages(calls, ep.get(), a);
      try_tagged_receives(calls, ep.get(), a);
    }
    return calls.none();
  }));
}

TEST_F(a_child_of_fork_with_connected_endpoints, connects_none_and_opens_none) {
  EXPECT_TRUE(holds_in_child([&] {
    taken_calls calls;
    arguments a;
    char name[64]{};
    std::size_t length = sizeof name;
    fid_ep* opened_ep = nullptr;
    fid_cq* cq = nullptr;
    fi_cq_attr queue{};
    calls.see("getname", fi_getname(&ep->fid, name, &length));
    calls.see("getpeer", fi_getpeer(ep.get(), name, &length));
    calls.see("setname", fi_setname(&ep->fid, name, length));
    calls.see("connect", fi_connect(ep.get(), name, nullptr, 0));
    calls.see("accept", fi_accept(ep.get(), nullptr, 0));
    calls.see("shutdown", fi_shutdown(ep.get(), 0));
    try_options(calls, ep.get());
    calls.see("pep_getname", fi_getname(&listener->fid, name, &length));
    calls.see("pep_setname", fi_setname(&listener->fid, name, length));
    calls.see("listen", fi_listen(listener.get()));
    calls.see("reject", fi_reject(listener.get(), nullptr, nullptr, 0));
    calls.see("pep_control", fi_control(&listener->fid, FI_BACKLOG, &length));
    calls.see("endpoint", fi_endpoint(domain.get(), info.get(), &opened_ep, nullptr));
    calls.see("srx", fi_srx_context(domain.get(), info->rx_attr, &opened_ep, nullptr));
    calls.see("cq", fi_cq_open(domain.get(), &queue, &cq, nullptr));
    try_registration(calls, domain.get(), a);
    return calls.none() && fi_close(&ep->fid) == 0 && fi_close(&listener->fid) == 0 &&
           fi_close(&domain->fid) == 0;
  }));
}

}  // namespace
}  // namespace gaudi::fi::test
