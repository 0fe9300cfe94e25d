// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace gaudi::reg {

/// How many use something (low bits), and how often it began or ended to be a registration: an odd
/// number while it is one. Who saw the word with a key beside it, and could then count itself in
/// it, uses what has this key. Thread safe, but for begin() and end(), which one thread calls at a
/// time.
class versioned_refcount {
 public:
  /// Of words as load() gives them: whether it was a registration then, and had users.
  [[nodiscard]] static bool lives(std::uint64_t w) noexcept { return (w & turn) != 0; }
  [[nodiscard]] static bool is_used(std::uint64_t w) noexcept { return (w & (turn - 1)) != 0; }

  [[nodiscard]] std::uint64_t load() const noexcept {
    return word_.load(std::memory_order_acquire);
  }
  /// A user more, where nothing has changed since the word was `seen`. False: it has, or may have;
  /// `seen` is the word now.
  [[nodiscard]] bool enter(std::uint64_t& seen) noexcept {
    return word_.compare_exchange_weak(seen, seen + user, std::memory_order_acq_rel,
                                       std::memory_order_acquire);
  }
  /// A user less, who gets the word that is left. In one order with what a cache says of its
  /// capacity.
  std::uint64_t leave() noexcept { return word_.fetch_sub(user, std::memory_order_seq_cst) - user; }
  /// A registration that nobody uses.
  [[nodiscard]] bool is_idle() const noexcept {
    const auto w = word_.load(std::memory_order_seq_cst);
    return lives(w) && !is_used(w);
  }
  /// It is a registration from now on, with its first user. Only where it is none.
  void begin() noexcept {
    word_.store(word_.load(std::memory_order_relaxed) + turn + user, std::memory_order_release);
  }
  /// It is none from now on. Only where it is one. False: somebody uses it.
  [[nodiscard]] bool end() noexcept {
    auto w = word_.load(std::memory_order_relaxed);
    return !is_used(w) && word_.compare_exchange_strong(w, w + turn, std::memory_order_acq_rel,
                                                        std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t user = 1;
  static constexpr std::uint64_t turn = std::uint64_t{1} << 24;
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace gaudi::reg
