// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gaudi::ipc {

/// The words of a copy that two processes make together, in memory that both map. What stands in
/// them is the other process's word: it says how far that is, never where to copy to.
struct copy_state {
  alignas(64) std::atomic<std::uint64_t> next{0};     ///< number of the copy, and piece to be taken
  alignas(64) std::atomic<std::uint32_t> working{0};  ///< the helper has, or looks for, a piece
  std::atomic<std::int32_t> error{0};                 ///< of the helper's: 0 or a positive FI_E*
  std::atomic<std::uint64_t> helped{0};               ///< bytes that the helper has copied
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// What both ends know of one copy.
struct copy_descriptor {
  std::uint32_t number;  ///< tells it from earlier ones on the same words
  std::uint32_t piece;   ///< bytes, not 0; the last piece may be shorter
  std::uint64_t length;  ///< bytes of all
};

/// One copy that the end where the data is wanted (its owner) and the other end (its helper) make
/// together: each takes the next piece that nobody has, until none is left. The owner needs no help
/// to get done, unless the helper has taken a piece. One thread at each end.
class cooperative_copy {
 public:
  /// The words outlive it. As the helper has it, or as the owner before start().
  cooperative_copy(copy_state& words, const copy_descriptor& plan) noexcept
      : words_(&words), plan_(plan) {}

  struct piece {
    std::uint64_t offset;
    std::size_t length;
  };

  [[nodiscard]] const copy_descriptor& plan() const noexcept { return plan_; }

  /// Owner: lets pieces be taken.
  void start() noexcept;
  /// Owner: the next piece; nothing: none is left.
  [[nodiscard]] std::optional<piece> take() noexcept;
  /// Owner: bytes that the helper has copied; they are there.
  [[nodiscard]] std::uint64_t helped() const noexcept {
    return words_->helped.load(std::memory_order_acquire);
  }
  /// Owner: 0, or the positive FI_E* with which the helper failed.
  [[nodiscard]] int error() const noexcept { return words_->error.load(std::memory_order_acquire); }
  /// Owner: as if the helper had failed with this positive FI_E*.
  void fail(int error) noexcept { words_->error.store(error, std::memory_order_release); }
  /// Owner: nobody takes a piece any more. Whether the helper is at none either: until then it may
  /// still write.
  [[nodiscard]] bool stop() noexcept;

  /// Helper: as take(); each piece is to be answered with gave().
  [[nodiscard]] std::optional<piece> take_assist() noexcept;
  /// Helper: the piece is copied (0), or could not be (a positive FI_E*).
  void gave(const piece& p, int error) noexcept;

 private:
  copy_state* words_;
  copy_descriptor plan_;
};

/// The words of all copies that one end owns, on one channel. Not thread safe.
class cooperative_copies {
 public:
  static constexpr std::size_t most = 8;
  using words = std::array<copy_state, most>;

  /// The words outlive it.
  explicit cooperative_copies(words& all) noexcept : words_(all) {}

  struct begun {
    cooperative_copy copy;
    std::uint32_t words;  ///< which ones, as the helper is to be told, and for end()
  };
  /// A started copy; nothing: `most` are under way.
  [[nodiscard]] std::optional<begun> begin(std::uint64_t length, std::uint32_t piece) noexcept;
  /// The copy on these words has stopped.
  void end(std::uint32_t which) noexcept { in_use_.at(which) = false; }

 private:
  words& words_;
  std::array<bool, most> in_use_{};
  std::uint32_t last_number_ = 0;
};

}  // namespace gaudi::ipc
