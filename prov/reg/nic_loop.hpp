// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/log.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "core/loopback.hpp"

namespace gaudi::reg {

/// The NIC of a domain as a copy engine within this process, connected at first use. A connection
/// that fails, as it does when a device is lost under a read, is made again at the next one. Not
/// thread safe: the caller holds the domain lock.
class nic_loop {
 public:
  explicit nic_loop(core::inner_domain& core) noexcept : core_(core) {}

  /// Whether there is such a connection; where there is none, one is tried (core::loopback::open).
  /// After max_failures of these in a row each call fails with the last one's error.
  base::result<void> connect() {
    if (!connected_ && may_connect()) open();
    if (!connected_) return base::error{failure_};
    return {};
  }
  /// False: it has failed so often that it is not tried again.
  [[nodiscard]] bool may_connect() const noexcept { return failures_ < max_failures; }

  /// As core::loopback::read.
  base::result<void> read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                          std::uint64_t key) {
    return carry_out([&](core::loopback& connected) {
      return connected.read(to, descriptor, length, address, key);
    });
  }
  /// As core::loopback::copy.
  base::result<void> copy(const core::local_place& to, const core::local_place& from,
                          std::size_t length) {
    return carry_out([&](core::loopback& connected) { return connected.copy(to, from, length); });
  }

  [[nodiscard]] core::inner_domain& core() const noexcept { return core_; }

 private:
  // Each may take a second, under the lock.
  static constexpr unsigned max_failures = 3;

  template <class Operation>
  base::result<void> carry_out(Operation operation) {
    if (const auto there = connect(); !there) return there;
    const auto done = operation(*connected_);
    // What is still under way must not arrive when others write there.
    if (!done) connected_.reset();
    return done;
  }

  void open() {
    auto opened = core::loopback::open(core_);
    failure_ = opened.code();
    failures_ = opened ? 0 : failures_ + 1;
    if (opened) connected_ = *std::move(opened);
    GAUDI_INFO(EP_CTRL, "NIC %s connects with itself: %s\n", core_.info().domain_attr->name,
               fi_strerror(-failure_));
  }

  core::inner_domain& core_;
  std::unique_ptr<core::loopback> connected_;
  unsigned failures_ = 0;  // to connect, in a row
  int failure_ = 0;        // the last one
};

}  // namespace gaudi::reg
