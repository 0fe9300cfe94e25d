// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/shared_context.hpp"

#include <array>
#include <string>
#include <string_view>

#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

/// Two endpoints that share their receives, each with a queue of its own, and a third that sends to
/// them.
class shared_context : public testing::Test {
 protected:
  shared_context() : opened_(direct_mode), sender_(opened_), av_(opened_.open_av()) {
    fid_ep* srx = nullptr;
    EXPECT_EQ(fi_srx_context(opened_.domain.get(), opened_.info->rx_attr, &srx, nullptr), 0);
    receives_.reset(srx);
    for (int i = 0; i < 2; ++i) ends_[i] = open_end();
  }

  struct end {
    unique_fid<fid_cq> cq;
    unique_fid<fid_ep> ep;
    fi_addr_t address = FI_ADDR_NOTAVAIL;  ///< for the sender
  };
  end open_end(std::uint64_t receive_flags = FI_RECV) {
    end e{opened_.open_cq(FI_CQ_FORMAT_TAGGED), opened_.open_ep()};
    EXPECT_EQ(fi_ep_bind(e.ep.get(), &av_->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(e.ep.get(), &e.cq->fid, FI_TRANSMIT), 0);
    EXPECT_EQ(fi_ep_bind(e.ep.get(), &e.cq->fid, receive_flags), 0);
    EXPECT_EQ(fi_ep_bind(e.ep.get(), &receives_->fid, 0), 0);
    EXPECT_EQ(fi_enable(e.ep.get()), 0);
    std::array<std::byte, 64> name{};
    std::size_t length = name.size();
    EXPECT_EQ(fi_getname(&e.ep->fid, name.data(), &length), 0);
    EXPECT_EQ(fi_av_insert(sender_.av.get(), name.data(), 1, &e.address, 0, nullptr), 1);
    return e;
  }

  void send(const end& to, std::string_view text, std::uint64_t tag = 5) {
    EXPECT_EQ(retry(sender_.cq.get(),
                    [&] {
                      return fi_tinject(sender_.ep.get(), text.data(), text.size(), to.address,
                                        tag);
                    }),
              0);
  }
  /// The next completion at `e`.
  fi_cq_tagged_entry next(const end& e) {
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(retry(sender_.cq.get(), [&] { return fi_cq_read(e.cq.get(), &entry, 1); }), 1);
    return entry;
  }
  /// Lets what is under way arrive.
  void settle() {
    for (int i = 0; i < 2000; ++i) fi_cq_read(sender_.cq.get(), nullptr, 0);
  }
  ssize_t receive(void* context = nullptr, std::uint64_t tag = 5) {
    return fi_trecv(receives_.get(), place_.data(), place_.size(), nullptr, FI_ADDR_UNSPEC, tag, 0,
                    context);
  }
  [[nodiscard]] std::string_view got(const fi_cq_tagged_entry& entry) const {
    return {place_.data(), entry.len};
  }

  opened opened_;
  endpoint_set sender_;
  unique_fid<fid_av> av_;
  unique_fid<fid_ep> receives_;
  std::array<end, 2> ends_;
  std::array<char, 64> place_{};
};

TEST_F(shared_context, receive_takes_the_message_of_whichever_endpoint) {
  for (const end& to : {std::cref(ends_[1]), std::cref(ends_[0])}) {
    ASSERT_EQ(receive(&place_), 0);
    send(to, "hello");
    const auto entry = next(to);
    EXPECT_EQ(entry.op_context, &place_);
    EXPECT_EQ(got(entry), "hello");
  }
}

TEST_F(shared_context, message_waits_for_a_receive) {
  send(ends_[1], "early");
  settle();
  ASSERT_EQ(receive(), 0);
  EXPECT_EQ(got(next(ends_[1])), "early");
}

TEST_F(shared_context, selective_endpoint_reports_what_was_asked_for) {
  const end quiet = open_end(FI_RECV | FI_SELECTIVE_COMPLETION);
  ASSERT_EQ(receive(), 0);
  send(quiet, "silent");
  settle();
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_read(quiet.cq.get(), &entry, 1), -FI_EAGAIN);
  EXPECT_EQ(std::string_view(place_.data(), 6), "silent");
  iovec iov{place_.data(), place_.size()};
  const fi_msg_tagged loud{.msg_iov = &iov,
                           .desc = nullptr,
                           .iov_count = 1,
                           .addr = FI_ADDR_UNSPEC,
                           .tag = 5,
                           .ignore = 0,
                           .context = &iov,
                           .data = 0};
  ASSERT_EQ(fi_trecvmsg(receives_.get(), &loud, FI_COMPLETION), 0);
  send(quiet, "aloud");
  EXPECT_EQ(next(quiet).op_context, &iov);
}

TEST_F(shared_context, one_buffer_takes_messages_of_several_endpoints) {
  std::size_t least = 16;
  ASSERT_EQ(
      fi_setopt(&receives_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least), 0);
  iovec iov{place_.data(), 24};
  const fi_msg many{.msg_iov = &iov,
                    .desc = nullptr,
                    .iov_count = 1,
                    .addr = FI_ADDR_UNSPEC,
                    .context = nullptr,
                    .data = 0};
  ASSERT_EQ(fi_recvmsg(receives_.get(), &many, FI_MULTI_RECV), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(retry(sender_.cq.get(),
                    [&] { return fi_inject(sender_.ep.get(), "12345678", 8, ends_[i].address); }),
              0);
    const auto entry = next(ends_[i]);
    EXPECT_EQ(entry.buf, place_.data() + 8 * i);
    EXPECT_EQ((entry.flags & FI_MULTI_RECV) != 0, i == 1);
  }
}

TEST_F(shared_context, cancelled_receive_is_reported_once) {
  ASSERT_EQ(receive(&place_), 0);
  ASSERT_EQ(fi_cancel(&receives_->fid, &place_), 0);
  fi_cq_tagged_entry entry{};
  ASSERT_EQ(fi_cq_read(ends_[0].cq.get(), &entry, 1), -FI_EAVAIL);
  fi_cq_err_entry error{};
  ASSERT_EQ(fi_cq_readerr(ends_[0].cq.get(), &error, 0), 1);
  EXPECT_EQ(error.err, FI_ECANCELED);
  EXPECT_EQ(error.op_context, &place_);
  EXPECT_EQ(fi_cancel(&receives_->fid, &place_), -FI_ENOENT);
}

TEST_F(shared_context, endpoint_takes_its_messages_with_it) {
  send(ends_[0], "lost");
  settle();
  ends_[0].ep.reset();
  ASSERT_EQ(receive(), 0);
  send(ends_[1], "kept");
  EXPECT_EQ(got(next(ends_[1])), "kept");
}

TEST_F(shared_context, stays_open_for_its_endpoints) {
  EXPECT_EQ(fi_close(&receives_->fid), -FI_EBUSY);
}

TEST_F(shared_context, endpoint_posts_no_receives_of_its_own) {
  EXPECT_EQ(fi_recv(ends_[0].ep.get(), place_.data(), 8, nullptr, FI_ADDR_UNSPEC, nullptr),
            -FI_ENOSYS);
  EXPECT_EQ(fi_trecv(ends_[0].ep.get(), place_.data(), 8, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr),
            -FI_ENOSYS);
}

TEST_F(shared_context, is_bound_before_the_endpoint_is_enabled) {
  EXPECT_EQ(fi_ep_bind(sender_.ep.get(), &receives_->fid, 0), -FI_EINVAL);
  const opened other;
  const auto foreign = other.open_ep();
  EXPECT_EQ(fi_ep_bind(foreign.get(), &receives_->fid, 0), -FI_EINVAL);
}

// Both is what Sandia OpenSHMEM does with its only endpoint.
TEST_F(shared_context, transmit_context_comes_after_enabling_and_goes_before_closing) {
  fid_stx* stx = nullptr;
  ASSERT_EQ(fi_stx_context(opened_.domain.get(), opened_.info->tx_attr, &stx, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(sender_.ep.get(), &stx->fid, 0), 0);
  EXPECT_EQ(fi_close(&stx->fid), 0);
  ASSERT_EQ(receive(), 0);
  send(ends_[0], "kept");
  EXPECT_EQ(got(next(ends_[0])), "kept");
}

TEST_F(shared_context, transmit_context_is_of_the_endpoints_domain) {
  fid_stx* stx = nullptr;
  ASSERT_EQ(fi_stx_context(opened_.domain.get(), opened_.info->tx_attr, &stx, nullptr), 0);
  const unique_fid<fid_stx> transmits(stx);
  const opened other;
  const auto foreign = other.open_ep();
  EXPECT_EQ(fi_ep_bind(foreign.get(), &stx->fid, 0), -FI_EINVAL);
}

}  // namespace
}  // namespace gaudi::fi::test
