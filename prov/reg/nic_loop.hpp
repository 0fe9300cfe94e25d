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

/// The NIC of a domain as a copy engine within this process, connected at first use. Not thread
/// safe: the caller holds the domain lock.
class nic_loop {
 public:
  explicit nic_loop(core::inner_domain& core) noexcept : core_(core) {}

  /// Whether there is such a connection; the first call makes it (core::loopback::open). After an
  /// error each further call of either function fails with the same.
  base::result<void> connect() {
    if (failure_ == 0 && !connected_) open();
    if (failure_ != 0) return base::error{failure_};
    return {};
  }

  /// As core::loopback::read.
  base::result<void> read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                          std::uint64_t key) {
    if (const auto there = connect(); !there) return there;
    const auto done = connected_->read(to, descriptor, length, address, key);
    if (!done) {
      failure_ = done.code();
      // What is still under way must not arrive when others write there.
      connected_.reset();
    }
    return done;
  }

  [[nodiscard]] core::inner_domain& core() const noexcept { return core_; }

 private:
  void open() {
    auto opened = core::loopback::open(core_);
    if (opened)
      connected_ = *std::move(opened);
    else
      failure_ = opened.code();
    GAUDI_INFO(EP_CTRL, "NIC %s connects with itself: %s\n", core_.info().domain_attr->name,
               fi_strerror(-failure_));
  }

  core::inner_domain& core_;
  std::unique_ptr<core::loopback> connected_;
  int failure_ = 0;
};

}  // namespace gaudi::reg
