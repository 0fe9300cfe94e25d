// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What endpoints of FI_EP_MSG count for the devices, with a core whose operations do nothing.
#include <array>

#include "../reg/fake_nic.hpp"
#include "fi/common/tables.hpp"
#include "fi/msg/msg_domain.hpp"
#include "fi/msg/open_msg_domain.hpp"
#include "fi/open_fabric.hpp"
#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

/// Any operation of the core's: it takes it, or refuses it.
struct answers_t {
  static inline int answer = 0;

  template <class... Args>
  using function = ssize_t (*)(Args...);
  template <class... Args>
  constexpr operator function<Args...>() const noexcept {  // NOLINT(google-explicit-constructor)
    return [](Args...) -> ssize_t { return answer; };
  }
};
constexpr answers_t all{};
int close(fid_t) {
  return 0;
}
fi_ops closed = only_close<close>();
// clang-format off
fi_ops_msg messages{sizeof(fi_ops_msg), all, all, all, all, all, all, all, all, all};
fi_ops_rma accesses{sizeof(fi_ops_rma), all, all, all, all, all, all, all, all, all};
fi_ops_tagged tags{sizeof(fi_ops_tagged), all, all, all, all, all, all, all, all, all};
// clang-format on

/// An endpoint of the core's that does nothing else.
fid_ep* only_endpoint() {
  static fid_ep one{};
  one.fid.fclass = FI_CLASS_EP;
  one.fid.ops = &closed;
  one.msg = &messages;
  one.rma = &accesses;
  one.tagged = &tags;
  return &one;
}

class connected_traffic : public with_device {
 protected:
  connected_traffic()
      : domain_(
            new msg_domain(msg_domain_fid(nullptr), fabric_, nullptr, true, nic_.release_core())),
        address_(allocate(length)) {
    answers_t::answer = 0;
    auto& core = *msg_domain::of(domain_.get()).core();
    core.ops = &core_ops();
    const core::unique_info info(fi_allocinfo());
    info->ep_attr->type = FI_EP_MSG;
    info->fabric_attr->name = ::strdup("fake");
    info->domain_attr->name = ::strdup("fake_0");
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(domain_.get(), info.get(), &ep, nullptr), 0);
    ep_.reset(ep);
    EXPECT_EQ(fi_open_ops(&domain_->fid, FI_GAUDI_DOMAIN_OPS, 0, reinterpret_cast<void**>(&ops_),
                          nullptr),
              0);
  }
  ~connected_traffic() override {
    ep_.reset();
    EXPECT_EQ(o_.ops().free(o_.domain.get(), address_), 0);
  }

  static fi_ops_domain& core_ops() {
    static fi_ops_domain ops{};
    ops.size = sizeof ops;
    ops.endpoint = [](fid_domain*, fi_info*, fid_ep** out, void*) {
      *out = only_endpoint();
      return 0;
    };
    return ops;
  }
  [[nodiscard]] std::uint64_t counted() const {
    fi_gaudi_device_stats stats{};
    EXPECT_EQ(ops_->device_stats(domain_.get(), &stats), 0);
    return stats.zero_copy_bytes;
  }
  /// Bytes that an operation counts.
  template <class Operation>
  std::uint64_t added_by(Operation&& operation) {
    const std::uint64_t before = counted();
    EXPECT_EQ(operation(), answers_t::answer);
    return counted() - before;
  }
  void* at(std::uint64_t offset) const { return reinterpret_cast<void*>(address_ + offset); }

  static constexpr std::uint64_t length = 1 << 20;
  gaudi::test::fake_nic nic_;
  fabric fabric_{fabric_fid(FI_VERSION(1, 17), nullptr), context()};
  unique_fid<fid_domain> domain_;
  const std::uint64_t address_;
  unique_fid<fid_ep> ep_;
  fi_gaudi_ops* ops_ = nullptr;
};

TEST_F(connected_traffic, of_device_memory_is_counted_where_it_is_read_or_written) {
  fid_ep* const e = ep_.get();
  EXPECT_EQ(added_by([&] { return fi_send(e, at(0), 100, nullptr, 0, nullptr); }), 100U);
  EXPECT_EQ(added_by([&] { return fi_senddata(e, at(5), 7, nullptr, 1, 0, nullptr); }), 7U);
  EXPECT_EQ(added_by([&] { return fi_tsend(e, at(5), 8, nullptr, 0, 1, nullptr); }), 8U);
  EXPECT_EQ(added_by([&] { return fi_write(e, at(9), 300, nullptr, 0, 1, 2, nullptr); }), 300U);
  EXPECT_EQ(added_by([&] { return fi_writedata(e, at(9), 30, nullptr, 4, 0, 1, 2, nullptr); }),
            30U);
  EXPECT_EQ(added_by([&] { return fi_read(e, at(length - 4), 4, nullptr, 0, 1, 2, nullptr); }), 4U);
}

TEST_F(connected_traffic, counts_the_device_s_parts_of_vectors_and_messages) {
  fid_ep* const e = ep_.get();
  std::array<char, 50> host{};
  const std::array<iovec, 3> parts{{{at(0), 10}, {host.data(), host.size()}, {at(50), 1000}}};
  EXPECT_EQ(added_by([&] { return fi_sendv(e, parts.data(), nullptr, 3, 0, nullptr); }), 1010U);
  EXPECT_EQ(added_by([&] { return fi_readv(e, parts.data(), nullptr, 2, 0, 1, 2, nullptr); }), 10U);
  EXPECT_EQ(added_by([&] { return fi_writev(e, parts.data(), nullptr, 1, 0, 1, 2, nullptr); }),
            10U);
  fi_msg message{};
  message.msg_iov = parts.data();
  message.iov_count = parts.size();
  EXPECT_EQ(added_by([&] { return fi_sendmsg(e, &message, 0); }), 1010U);
  fi_msg_rma access{};
  access.msg_iov = parts.data();
  access.iov_count = 2;
  EXPECT_EQ(added_by([&] { return fi_writemsg(e, &access, 0); }), 10U);
  EXPECT_EQ(added_by([&] { return fi_readmsg(e, &access, 0); }), 10U);
  fi_msg_tagged tagged{};
  tagged.msg_iov = parts.data();
  tagged.iov_count = parts.size();
  EXPECT_EQ(added_by([&] { return fi_tsendmsg(e, &tagged, 0); }), 1010U);
}

TEST_F(connected_traffic, of_host_memory_or_of_nothing_known_is_not_counted) {
  std::array<char, 50> host{};
  EXPECT_EQ(added_by([&] { return fi_send(ep_.get(), host.data(), 50, nullptr, 0, nullptr); }), 0U);
  void* const nowhere = at(std::uint64_t{1} << 40);
  EXPECT_EQ(added_by([&] { return fi_send(ep_.get(), nowhere, 50, nullptr, 0, nullptr); }), 0U);
}

TEST_F(connected_traffic, that_the_core_does_not_take_is_not_counted) {
  answers_t::answer = -FI_EAGAIN;
  EXPECT_EQ(added_by([&] { return fi_send(ep_.get(), at(0), 100, nullptr, 0, nullptr); }), 0U);
  EXPECT_EQ(added_by([&] { return fi_write(ep_.get(), at(9), 3, nullptr, 0, 1, 2, nullptr); }), 0U);
}

}  // namespace
}  // namespace gaudi::fi::test
