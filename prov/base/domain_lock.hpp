// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>

#include "base/mutex.hpp"

namespace gaudi::base {

/// The one lock of a domain: everything below a fid_domain (endpoints, queues, memory regions) runs
/// under it, and the inner provider's domain is opened as FI_THREAD_DOMAIN, so an operation
/// takes one uncontended lock in all. Disabled when the application itself promised
/// FI_THREAD_DOMAIN.
///
/// Not a std::mutex: what that does besides its two exchanges (kinds of mutex, owners, counts)
/// takes a third of its time, in every operation. Who has to wait sleeps in the kernel, as there.
/// It may be destroyed by whoever has locked and unlocked it last, while an earlier unlock() is
/// still to return.
class GAUDI_CAPABILITY("domain lock") domain_lock {
 public:
  explicit domain_lock(bool enabled = true) noexcept : enabled_(enabled) {}

  void lock() noexcept GAUDI_ACQUIRE() {
    if (!enabled_) return;
    state seen = state::open;
    if (!state_.compare_exchange_strong(seen, state::held, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      wait_for_it();
    holder_.note();
  }
  void unlock() noexcept GAUDI_RELEASE() {
    if (enabled_) holder_.forget();
    // In one order with what sleepers tell of themselves.
    if (enabled_ && state_.exchange(state::open, std::memory_order_seq_cst) == state::awaited)
      state_.notify_one();
  }

  /// As mutex::assert_held. Nobody holds one that is disabled.
  void assert_held() const noexcept GAUDI_ASSERT_CAPABILITY(this) {
    if (enabled_) holder_.assert_is_this_thread();
  }

 private:
  enum class state : int { open, held, awaited };

  // Others may sleep as well, so it is awaited still when it is ours.
  [[gnu::noinline]] void wait_for_it() noexcept {
    while (state_.exchange(state::awaited, std::memory_order_seq_cst) != state::open)
      state_.wait(state::awaited, std::memory_order_relaxed);
  }

  std::atomic<state> state_{state::open};
  const bool enabled_;
  [[no_unique_address]] lock_holder holder_;
};

using scoped_domain_lock = scoped_lock<domain_lock>;

}  // namespace gaudi::base
