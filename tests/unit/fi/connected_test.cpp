// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connected endpoints (FI_EP_MSG) over loopback, both ends in this process.
#include <gmock/gmock.h>
#include <poll.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstring>
#include <string_view>
#include <thread>

#include "opened_for_connections.hpp"

namespace gaudi::fi::test {
namespace {

using std::chrono::seconds;

/// An event as fi_eq_read gives it.
struct event {
  std::uint32_t what = 0;
  fid_t from = nullptr;
  fi_info* info = nullptr;  ///< the reader's to free
  std::string data;
};

event next_event(fid_eq* eq) {
  alignas(fi_eq_cm_entry) std::array<std::byte, 512> buffer{};
  event e;
  const ssize_t ret = fi_eq_sread(eq, &e.what, buffer.data(), buffer.size(), 10000, 0);
  constexpr ssize_t head = sizeof(fi_eq_cm_entry);
  EXPECT_GE(ret, head) << fi_strerror(static_cast<int>(-ret));
  const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer.data());
  e.from = entry->fid;
  e.info = entry->info;
  if (ret > head)
    e.data.assign(reinterpret_cast<const char*>(entry->data), static_cast<std::size_t>(ret - head));
  return e;
}

unique_fid<fid_eq> open_eq(fid_fabric* f) {
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  fid_eq* eq = nullptr;
  EXPECT_EQ(fi_eq_open(f, &attr, &eq, nullptr), 0);
  return unique_fid<fid_eq>(eq);
}

class connected : public testing::Test {
 protected:
  connected()
      : info(find(*connected_hints())),
        fabric(open_fabric(*info)),
        domain(open_domain(*fabric, *info)),
        events(open_eq(fabric.get())) {
    fid_pep* p = nullptr;
    EXPECT_EQ(fi_passive_ep(fabric.get(), info.get(), &p, this), 0);
    listener.reset(p);
    EXPECT_EQ(fi_pep_bind(p, &events->fid, 0), 0);
    EXPECT_EQ(fi_listen(p), 0);
  }

  /// One end: an endpoint with a queue.
  struct end {
    unique_fid<fid_cq> cq;
    unique_fid<fid_ep> ep;
  };
  end open_end(fi_info& with) {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = FI_WAIT_FD;
    fid_cq* cq = nullptr;
    EXPECT_EQ(fi_cq_open(domain.get(), &attr, &cq, nullptr), 0);
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(domain.get(), &with, &ep, this), 0);
    end e{unique_fid<fid_cq>(cq), unique_fid<fid_ep>(ep)};
    EXPECT_EQ(fi_ep_bind(ep, &events->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    EXPECT_EQ(fi_enable(ep), 0);
    return e;
  }
  end call(std::string_view say) {
    std::array<std::byte, 64> name{};
    std::size_t length = name.size();
    EXPECT_EQ(fi_getname(&listener->fid, name.data(), &length), 0);
    end caller = open_end(*info);
    EXPECT_EQ(fi_connect(caller.ep.get(), name.data(), say.data(), say.size()), 0);
    return caller;
  }
  void connect() {
    active = call("");
    const event request = next_event(events.get());
    const core::unique_info theirs(request.info);
    passive = open_end(*theirs);
    EXPECT_EQ(fi_accept(passive.ep.get(), nullptr, 0), 0);
    for (int up = 0; up < 2; ++up) EXPECT_EQ(next_event(events.get()).what, FI_CONNECTED);
  }
  fi_cq_data_entry cq_entry(const end& e) {
    fi_cq_data_entry entry{};
    EXPECT_EQ(fi_cq_sread(e.cq.get(), &entry, 1, nullptr, 10000), 1);
    return entry;
  }

  core::unique_info info;
  unique_fid<fid_fabric> fabric;
  unique_fid<fid_domain> domain;
  unique_fid<fid_eq> events;
  unique_fid<fid_pep> listener;
  end active;
  end passive;
};

TEST_F(connected, is_listed_under_our_names) {
  EXPECT_EQ(info->ep_attr->type, FI_EP_MSG);
  EXPECT_STREQ(info->domain_attr->name, "gaudi-lo");
  EXPECT_EQ(info->ep_attr->protocol, static_cast<std::uint32_t>(FI_PROTO_SOCK_TCP));
  EXPECT_EQ(info->caps & FI_HMEM, 0U);
}

TEST_F(connected, comes_after_datagram_endpoints_for_who_names_no_type) {
  const auto hints = connected_hints(FI_MSG);
  hints->ep_attr->type = FI_EP_UNSPEC;
  const auto all = find(*hints);
  std::vector<fi_ep_type> types;
  for (const fi_info* i = all.get(); i; i = i->next) types.push_back(i->ep_attr->type);
  EXPECT_EQ(types.front(), FI_EP_RDM);
  EXPECT_EQ(types.back(), FI_EP_MSG);
}

TEST_F(connected, exchanges_data_when_connecting) {
  end caller = call("how do you do");
  const event request = next_event(events.get());
  EXPECT_EQ(request.what, FI_CONNREQ);
  EXPECT_EQ(request.from, &listener->fid);
  EXPECT_EQ(request.data.substr(0, 13), "how do you do");
  const core::unique_info theirs(request.info);
  EXPECT_STREQ(theirs->domain_attr->name, "gaudi-lo");

  const end callee = open_end(*theirs);
  EXPECT_EQ(fi_accept(callee.ep.get(), "fine", 4), 0);
  std::vector<fid_t> up;
  std::string said;
  for (int i = 0; i < 2; ++i) {
    const event e = next_event(events.get());
    EXPECT_EQ(e.what, FI_CONNECTED);
    up.push_back(e.from);
    said += e.data;
  }
  EXPECT_THAT(up, testing::UnorderedElementsAre(&caller.ep->fid, &callee.ep->fid));
  EXPECT_THAT(said, testing::HasSubstr("fine"));
}

TEST_F(connected, carries_messages_and_injects) {
  connect();
  std::array<char, 32> place{};
  ASSERT_EQ(fi_recv(passive.ep.get(), place.data(), place.size(), nullptr, 0, &place), 0);
  ASSERT_EQ(fi_recv(passive.ep.get(), place.data() + 16, 16, nullptr, 0, nullptr), 0);
  int context = 0;
  ASSERT_EQ(fi_senddata(active.ep.get(), "first", 5, nullptr, 77, 0, &context), 0);
  ASSERT_EQ(fi_inject(active.ep.get(), "second", 6, 0), 0);
  const fi_cq_data_entry got = cq_entry(passive);
  EXPECT_EQ(got.op_context, place.data());
  EXPECT_EQ(got.data, 77U);
  EXPECT_EQ(std::string_view(place.data(), got.len), "first");
  EXPECT_EQ(cq_entry(passive).len, 6U);
  EXPECT_EQ(std::string_view(place.data() + 16, 6), "second");
  EXPECT_EQ(cq_entry(active).op_context, &context);
}

TEST_F(connected, writes_to_memory_of_the_peer) {
  connect();
  std::array<char, 64> target{};
  fid_mr* mr = nullptr;
  ASSERT_EQ(
      fi_mr_reg(domain.get(), target.data(), target.size(), FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr),
      0);
  const unique_fid<fid_mr> own(mr);
  // Of what the application offers the core takes what it needs; tcp, nothing.
  const bool virtual_address = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
  const auto address = virtual_address ? reinterpret_cast<std::uint64_t>(target.data()) : 0;
  ASSERT_EQ(
      fi_write(active.ep.get(), "over there", 10, nullptr, 0, address, fi_mr_key(mr), nullptr), 0);
  const auto give_up = std::chrono::steady_clock::now() + seconds(10);
  while (target[9] == 0 && std::chrono::steady_clock::now() < give_up) {
    fi_cq_read(active.cq.get(), nullptr, 0);
    fi_cq_read(passive.cq.get(), nullptr, 0);
  }
  EXPECT_EQ(std::string_view(target.data(), 10), "over there");
}

TEST_F(connected, rejects_with_a_reason) {
  const end caller = call("let me in");
  const event request = next_event(events.get());
  const core::unique_info theirs(request.info);
  ASSERT_EQ(fi_reject(listener.get(), theirs->handle, "full", 4), 0);
  std::uint32_t what = 0;
  std::array<std::byte, 256> buffer{};
  ASSERT_EQ(fi_eq_sread(events.get(), &what, buffer.data(), buffer.size(), 10000, 0), -FI_EAVAIL);
  fi_eq_err_entry error{};
  ASSERT_GT(fi_eq_readerr(events.get(), &error, 0), 0);
  EXPECT_EQ(error.fid, &caller.ep->fid);
  EXPECT_EQ(error.context, this);
  EXPECT_EQ(error.err, FI_ECONNREFUSED);
  ASSERT_EQ(error.err_data_size, 4U);
  EXPECT_EQ(std::string_view(static_cast<const char*>(error.err_data), 4), "full");
}

TEST_F(connected, tells_of_a_shutdown) {
  connect();
  ASSERT_EQ(fi_shutdown(active.ep.get(), 0), 0);
  // Both ends are told; by tcp the one that did it, too.
  const event e = next_event(events.get());
  EXPECT_EQ(e.what, FI_SHUTDOWN);
  EXPECT_THAT((std::array{&active.ep->fid, &passive.ep->fid}), testing::Contains(e.from));
}

TEST_F(connected, event_queue_can_be_slept_on) {
  int fd = -1;
  ASSERT_EQ(fi_control(&events->fid, FI_GETWAIT, &fd), 0);
  fid* one = &events->fid;
  ASSERT_EQ(fi_trywait(fabric.get(), &one, 1), 0);
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  const end caller = call("");
  EXPECT_EQ(poll(&readable, 1, 10000), 1);
  const event request = next_event(events.get());
  EXPECT_EQ(request.what, FI_CONNREQ);
  // The core keeps a request until it is answered.
  const core::unique_info theirs(request.info);
  EXPECT_EQ(fi_reject(listener.get(), theirs->handle, nullptr, 0), 0);
}

TEST_F(connected, queue_of_the_core_can_be_slept_on) {
  connect();
  fid* one = &passive.cq->fid;
  std::array<char, 8> place{};
  ASSERT_EQ(fi_recv(passive.ep.get(), place.data(), place.size(), nullptr, 0, nullptr), 0);
  const int ret = fi_trywait(fabric.get(), &one, 1);
  EXPECT_THAT(ret, testing::AnyOf(0, -FI_EAGAIN));
  ASSERT_EQ(fi_send(active.ep.get(), "x", 1, nullptr, 0, nullptr), 0);
  EXPECT_EQ(cq_entry(passive).len, 1U);
}

TEST_F(connected, domain_stays_open_for_what_is_in_it) {
  connect();
  EXPECT_EQ(fi_close(&domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&fabric->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&events->fid), -FI_EBUSY);
}

TEST_F(connected, domain_stays_open_for_a_queue_of_the_core) {
  fi_cq_attr attr{};
  fid_cq* cq = nullptr;
  ASSERT_EQ(fi_cq_open(domain.get(), &attr, &cq, nullptr), 0);
  const unique_fid<fid_cq> own(cq);
  EXPECT_EQ(fi_close(&domain->fid), -FI_EBUSY);
}

TEST_F(connected, belongs_to_the_process_that_opened_it) {
  connect();
  EXPECT_TRUE(holds_in_child([&] {
    char byte = 0;
    return fi_send(active.ep.get(), &byte, 1, nullptr, 0, nullptr) == -FI_EOPBADSTATE &&
           fi_shutdown(active.ep.get(), 0) == -FI_EOPBADSTATE && fi_close(&active.ep->fid) == 0 &&
           fi_close(&listener->fid) == 0 && fi_close(&domain->fid) == 0;
  }));
  // The parent goes on.
  std::array<char, 8> place{};
  ASSERT_EQ(fi_recv(passive.ep.get(), place.data(), place.size(), nullptr, 0, nullptr), 0);
  ASSERT_EQ(fi_send(active.ep.get(), "alive", 5, nullptr, 0, nullptr), 0);
  EXPECT_EQ(cq_entry(passive).len, 5U);
}

TEST_F(connected, datagram_info_makes_no_connected_endpoint) {
  info->ep_attr->type = FI_EP_RDM;
  fid_pep* pep = nullptr;
  EXPECT_EQ(fi_passive_ep(fabric.get(), info.get(), &pep, nullptr), -FI_EINVAL);
  fid_ep* ep = nullptr;
  EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &ep, nullptr), -FI_EINVAL);
}

TEST(connected_info, tcp_has_no_device_memory) {
  set_device_probe([] { return true; });
  const auto hints = connected_hints(FI_MSG | FI_HMEM);
  hints->domain_attr->mr_mode |= FI_MR_HMEM;
  fi_info* found = nullptr;
  EXPECT_EQ(getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), -FI_ENODATA);
  set_device_probe(nullptr);
}

TEST(connected_info, takes_a_passive_endpoint_for_a_handle) {
  const auto info = find(*connected_hints());
  const auto fabric = open_fabric(*info);
  fid_pep* pep = nullptr;
  ASSERT_EQ(fi_passive_ep(fabric.get(), info.get(), &pep, nullptr), 0);
  const unique_fid<fid_pep> own(pep);
  const auto hints = connected_hints();
  hints->handle = &pep->fid;
  const auto again = find(*hints, 0);
  EXPECT_EQ(again->handle, &pep->fid);
}

}  // namespace
}  // namespace gaudi::fi::test
