// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "core/loopback_connection.hpp"

namespace gaudi::reg {

/// The NIC of a domain as a copy engine within this process, connected at first use. A connection
/// that fails, as it does when a device is lost under a read, is made again: at once where an
/// earlier operation used it, as it may have broken since, else for the next one. Not thread safe:
/// the caller holds the domain lock.
class nic_loopback {
 public:
  /// `clock` measures the pauses between attempts to connect, and how long operations take.
  explicit nic_loopback(core::inner_domain& core, base::clock clock = {}) noexcept
      : core_(core), clock_(clock) {}

  /// Whether there is such a connection; where there is none, one is tried
  /// (core::loopback_connection::open). An attempt may take a second, under the lock: after one
  /// that failed, each call fails with its error for a pause, which doubles with each failure in a
  /// row, from a second to some minutes. So a NIC whose link is down for a while is used again when
  /// it is up.
  base::result<void> connect() {
    if (!connected_ && may_try()) open();
    if (!connected_) return base::error{failure_};
    return {};
  }
  /// The core has no such connections, and so never will.
  [[nodiscard]] bool cannot_connect() const noexcept {
    return failure_ == -FI_ENOSYS || failure_ == -FI_EOPNOTSUPP;
  }

  /// As core::loopback_connection::read.
  base::result<void> read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                          std::uint64_t key) {
    return carry_out([&](core::loopback_connection& connected) {
      return connected.read(to, descriptor, length, address, key);
    });
  }
  /// As core::loopback_connection::copy.
  base::result<void> copy(const core::local_place& to, const core::local_place& from,
                          std::size_t length) {
    return carry_out(
        [&](core::loopback_connection& connected) { return connected.copy(to, from, length); });
  }

  /// What a copy has host memory for.
  enum class end { source, target };
  /// Host memory that the core does not know, for copies alone. Errors of
  /// core::inner_domain::register_memory.
  base::result<core::inner_mr> register_host(std::byte* bytes, std::size_t length, end which) {
    return core_.register_memory(bytes, length, which == end::source ? FI_SEND : FI_RECV);
  }

  [[nodiscard]] core::inner_domain& core() const noexcept { return core_; }

 private:
  static constexpr std::chrono::seconds min_pause{1};
  static constexpr std::chrono::seconds max_pause{512};

  [[nodiscard]] bool may_try() const noexcept {
    return failure_ == 0 || (!cannot_connect() && clock_.now() >= next_try_);
  }

  template <class Operation>
  base::result<void> carry_out(const Operation& operation) {
    const bool was_there = connected_ != nullptr;
    const auto done = carry_out_once(operation);
    // A NIC that says nothing has had its time.
    if (done || !was_there || done.code() == -FI_ETIMEDOUT) return done;
    return carry_out_once(operation);
  }

  template <class Operation>
  base::result<void> carry_out_once(const Operation& operation) {
    if (const auto there = connect(); !there) return there;
    const auto done = operation(*connected_);
    // What is still under way must not arrive when others write there.
    if (!done) connected_.reset();
    if (done.code() == -FI_ETIMEDOUT) tell_of_silence();
    return done;
  }

  void tell_of_silence() noexcept {
    if (std::exchange(told_of_silence_, true)) return;
    GAUDI_WARN(
        EP_DATA,
        "NIC %s does not end what it is to read or copy over its connection with itself: "
        "flushes of what it wrote to a Gaudi, and reads of an endpoint from itself, fail (%s) "
        "or take long. Is its link up (rdma link)?\n",
        core_.info().domain_attr->name, fi_strerror(FI_ETIMEDOUT));
  }

  void open() {
    auto opened = core::loopback_connection::open(core_, clock_);
    failure_ = opened.code();
    if (opened) {
      connected_ = *std::move(opened);
      pause_ = min_pause;
    } else {
      next_try_ = clock_.now() + pause_;
      pause_ = std::min(2 * pause_, max_pause);
    }
    GAUDI_INFO(EP_CTRL, "NIC %s connects with itself: %s\n", core_.info().domain_attr->name,
               fi_strerror(-failure_));
  }

  core::inner_domain& core_;
  const base::clock clock_;
  std::unique_ptr<core::loopback_connection> connected_;
  int failure_ = 0;  // of the last attempt to connect
  std::chrono::seconds pause_ = min_pause;
  base::clock::time_point next_try_{};
  bool told_of_silence_ = false;
};

}  // namespace gaudi::reg
