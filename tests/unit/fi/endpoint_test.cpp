// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include "opened.hpp"

namespace gaudi::fi {
namespace {

using test::endpoint_set;
using test::opened;
using test::retry;

TEST(endpoints, need_a_vector_and_queues_before_they_are_enabled) {
  const opened o;
  const auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  const auto av = o.open_av();
  const auto ep = o.open_ep();
  EXPECT_EQ(fi_enable(ep.get()), -FI_ENOAV);
  ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
  EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
  ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT), 0);
  EXPECT_EQ(fi_enable(ep.get()), -FI_ENOCQ);
  ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_RECV), 0);
  EXPECT_EQ(fi_enable(ep.get()), 0);
  EXPECT_EQ(fi_enable(ep.get()), 0);
}

TEST(endpoints, refuse_what_cannot_be_bound) {
  const opened o;
  const opened other;
  const auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  const auto foreign = other.open_cq(FI_CQ_FORMAT_CONTEXT);
  const auto av = o.open_av();
  const auto ep = o.open_ep();
  EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, 0), -FI_EBADFLAGS);
  EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_WRITE), -FI_EBADFLAGS);
  EXPECT_EQ(fi_ep_bind(ep.get(), &foreign->fid, FI_TRANSMIT), -FI_EINVAL);
  EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT), 0);
  EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT), -FI_EINVAL) << "one queue each way";
  EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
  EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_ep_bind(ep.get(), &o.domain->fid, 0), -FI_ENOSYS);
}

TEST(endpoints, keep_open_what_is_bound_to_them) {
  const opened o;
  fi_eq_attr attr{};
  fid_eq* e = nullptr;
  ASSERT_EQ(fi_eq_open(o.fabric.get(), &attr, &e, nullptr), 0);
  test::unique_fid<fid_eq> eq(e);
  endpoint_set s(o);
  ASSERT_EQ(fi_ep_bind(s.ep.get(), &eq->fid, 0), 0);
  EXPECT_EQ(fi_close(&s.cq->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&s.av->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
  s.ep.reset();
  EXPECT_EQ(fi_close(&s.cq.release()->fid), 0);
  EXPECT_EQ(fi_close(&s.av.release()->fid), 0);
  EXPECT_EQ(fi_close(&eq.release()->fid), 0);
}

TEST(endpoints, have_a_name_once_they_are_enabled) {
  const opened o;
  const auto unready = o.open_ep();
  std::byte name[64];
  std::size_t length = sizeof name;
  EXPECT_EQ(fi_getname(&unready->fid, name, &length), -FI_EOPBADSTATE);
  const endpoint_set s(o);
  length = 0;
  EXPECT_EQ(fi_getname(&s.ep->fid, nullptr, &length), -FI_ETOOSMALL);
  EXPECT_EQ(length, sizeof(sockaddr_in));
  EXPECT_EQ(fi_getname(&s.ep->fid, name, &length), 0);
}

TEST(endpoints, are_of_one_type) {
  const opened o;
  fid_ep* ep = nullptr;
  o.info->ep_attr->type = FI_EP_MSG;
  EXPECT_EQ(fi_endpoint(o.domain.get(), o.info.get(), &ep, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_endpoint(o.domain.get(), nullptr, &ep, nullptr), -FI_EINVAL);
}

TEST(endpoints, let_default_flags_be_read_and_set) {
  const opened o;
  const auto ep = o.open_ep();
  std::uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
  EXPECT_EQ(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), 0);
  flags = FI_TRANSMIT;
  EXPECT_EQ(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, FI_DELIVERY_COMPLETE);
  flags = FI_RECV;
  EXPECT_EQ(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
  EXPECT_EQ(flags, 0U);
  flags = FI_TRANSMIT | FI_RECV;
  EXPECT_EQ(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), -FI_EINVAL);
  flags = 0;
  EXPECT_EQ(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
}

TEST(endpoints, refuse_operations_before_they_are_enabled) {
  const opened o;
  const endpoint_set peer(o);
  const auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  const auto ep = o.open_ep();
  ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &peer.av->fid, 0), 0);
  const auto to = peer.meet(peer);
  char byte = 0;
  EXPECT_EQ(fi_send(ep.get(), &byte, 1, nullptr, to, nullptr), -FI_EOPBADSTATE);
}

class two_endpoints : public testing::Test {
 protected:
  explicit two_endpoints(std::uint64_t flags = FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)
      : a_(o_, flags), b_(o_, flags), to_(a_.meet(b_)) {}

  /// Receives `tag` at b with a completion, whatever the queue's default.
  void receive(std::uint64_t tag) {
    iovec iov{&got_, 1};
    fi_msg_tagged msg{};
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = FI_ADDR_UNSPEC;
    msg.tag = tag;
    ASSERT_EQ(fi_trecvmsg(b_.ep.get(), &msg, FI_COMPLETION), 0);
    fi_cq_tagged_entry entry{};
    ASSERT_EQ(retry(a_.cq.get(), [&] { return fi_cq_read(b_.cq.get(), &entry, 1); }), 1);
    EXPECT_EQ(entry.tag, tag);
  }
  ssize_t sendmsg(std::uint64_t tag, std::uint64_t flags, void* context) {
    iovec iov{&byte_, 1};
    fi_msg_tagged msg{};
    msg.msg_iov = &iov;
    msg.iov_count = 1;
    msg.addr = to_;
    msg.tag = tag;
    msg.context = context;
    return retry(b_.cq.get(), [&] { return fi_tsendmsg(a_.ep.get(), &msg, flags); });
  }

  opened o_;
  endpoint_set a_;
  endpoint_set b_;
  fi_addr_t to_;
  char byte_ = 'x';
  char got_ = 0;
};

TEST_F(two_endpoints, report_selectively_what_was_asked_for) {
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(
      retry(b_.cq.get(), [&] { return fi_tsend(a_.ep.get(), &byte_, 1, nullptr, to_, 1, &byte_); }),
      0);
  receive(1);
  ASSERT_EQ(sendmsg(2, 0, &byte_), 0);
  receive(2);
  EXPECT_EQ(fi_cq_read(a_.cq.get(), &entry, 1), -FI_EAGAIN);
  ASSERT_EQ(sendmsg(3, FI_COMPLETION, &got_), 0);
  receive(3);
  ASSERT_EQ(retry(b_.cq.get(), [&] { return fi_cq_read(a_.cq.get(), &entry, 1); }), 1);
  EXPECT_EQ(entry.op_context, &got_);
  EXPECT_EQ(entry.flags, FI_SEND | FI_TAGGED);
  // An error is reported though nothing was asked for.
  ASSERT_EQ(fi_trecv(b_.ep.get(), &got_, 1, nullptr, FI_ADDR_UNSPEC, 9, 0, &entry), 0);
  ASSERT_EQ(fi_cancel(&b_.ep->fid, &entry), 0);
  fi_cq_err_entry error{};
  EXPECT_EQ(fi_cq_read(b_.cq.get(), &entry, 1), -FI_EAVAIL);
  ASSERT_EQ(fi_cq_readerr(b_.cq.get(), &error, 0), 1);
  EXPECT_EQ(error.err, FI_ECANCELED);
  EXPECT_EQ(error.op_context, &entry);
}

class two_reporting_endpoints : public two_endpoints {
 protected:
  two_reporting_endpoints() : two_endpoints(FI_TRANSMIT | FI_RECV) {}
};

TEST_F(two_reporting_endpoints, do_not_report_injected_messages) {
  ASSERT_EQ(retry(b_.cq.get(), [&] { return fi_tinject(a_.ep.get(), &byte_, 1, to_, 1); }), 0);
  receive(1);
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_read(a_.cq.get(), &entry, 1), -FI_EAGAIN);
  const std::vector<char> large(o_.info->tx_attr->inject_size + 1);
  EXPECT_EQ(fi_tinject(a_.ep.get(), large.data(), large.size(), to_, 1), -FI_EINVAL);
  EXPECT_EQ(retry(b_.cq.get(),
                  [&] { return fi_tinject(a_.ep.get(), large.data(), large.size() - 1, to_, 2); }),
            0);
}

TEST_F(two_reporting_endpoints, refuse_calls_that_make_no_sense) {
  fi_msg_tagged msg{};
  msg.addr = FI_ADDR_UNSPEC;
  EXPECT_EQ(fi_trecvmsg(a_.ep.get(), &msg, FI_DISCARD), -FI_EINVAL)
      << "without FI_PEEK or FI_CLAIM";
  EXPECT_EQ(fi_trecvmsg(a_.ep.get(), &msg, FI_CLAIM), -FI_EINVAL) << "nothing was claimed";
  const std::vector<iovec> iov(o_.info->tx_attr->iov_limit + 1);
  EXPECT_EQ(fi_sendv(a_.ep.get(), iov.data(), nullptr, iov.size(), to_, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_recvv(a_.ep.get(), iov.data(), nullptr, iov.size(), 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_send(a_.ep.get(), &byte_, 1, nullptr, 77, nullptr), -FI_EINVAL);
  auto* device_address = reinterpret_cast<void*>(0x1001001800000000);
  EXPECT_EQ(fi_send(a_.ep.get(), device_address, 8, nullptr, to_, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_recv(a_.ep.get(), device_address, 8, nullptr, 0, nullptr), -FI_EINVAL);
  std::byte name[64];
  std::size_t length = sizeof name;
  EXPECT_EQ(fi_getpeer(a_.ep.get(), name, &length), -FI_ENOSYS);
}

// All of a domain's calls on the core are made under its lock, those of a closing endpoint, too.
TEST(endpoints, come_and_go_while_other_threads_use_the_domain) {
  const opened o;
  std::atomic<bool> stop{false};
  std::thread registers([&] {
    std::vector<std::byte> bytes(4096);
    std::vector<fid_mr*> open;
    while (!stop) {
      for (int i = 0; i < 50; ++i) {
        fid_mr* mr = nullptr;
        ASSERT_EQ(fi_mr_reg(o.domain.get(), bytes.data(), bytes.size(), FI_REMOTE_READ, 0, 0, 0,
                            &mr, nullptr),
                  0);
        open.push_back(mr);
      }
      for (fid_mr* mr : open) EXPECT_EQ(fi_close(&mr->fid), 0);
      open.clear();
    }
  });
  for (int i = 0; i < 100; ++i) {
    endpoint_set a(o);
    endpoint_set b(o);
  }
  stop = true;
  registers.join();
}

}  // namespace
}  // namespace gaudi::fi
