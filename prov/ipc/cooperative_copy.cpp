// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/cooperative_copy.hpp"

#include <algorithm>

namespace gaudi::ipc {
namespace {

constexpr unsigned number_shift = 32;
constexpr std::uint64_t no_piece_left = 0xffffffff;

constexpr std::uint64_t first_piece(std::uint32_t number) noexcept {
  return std::uint64_t{number} << number_shift;
}

}  // namespace

void cooperative_copy::start() noexcept {
  words_->error.store(0, std::memory_order_relaxed);
  words_->helped.store(0, std::memory_order_relaxed);
  words_->next.store(first_piece(plan_.number), std::memory_order_release);
}

// A helper that comes late finds another number, and takes nothing that is not its.
std::optional<cooperative_copy::piece> cooperative_copy::take() noexcept {
  std::uint64_t seen = words_->next.load(std::memory_order_acquire);
  while (seen >> number_shift == plan_.number) {
    const std::uint64_t offset = (seen & no_piece_left) * plan_.piece;
    if (offset >= plan_.length) break;
    if (words_->next.compare_exchange_weak(seen, seen + 1))
      return piece{offset, std::min<std::uint64_t>(plan_.piece, plan_.length - offset)};
  }
  return std::nullopt;
}

// Each end writes one word and then reads the other's (all in the one order of seq_cst): either the
// helper sees that it is too late, or the owner sees the helper at work.
bool cooperative_copy::stop() noexcept {
  words_->next.store(first_piece(plan_.number) | no_piece_left);
  return words_->working.load() == 0;
}

std::optional<cooperative_copy::piece> cooperative_copy::take_assist() noexcept {
  words_->working.store(1);
  const auto got = take();
  if (!got) words_->working.store(0, std::memory_order_release);
  return got;
}

void cooperative_copy::gave(const piece& p, int error) noexcept {
  if (error) {
    words_->error.store(error, std::memory_order_release);
  } else {
    words_->helped.fetch_add(p.length, std::memory_order_release);
  }
  words_->working.store(0, std::memory_order_release);
}

std::optional<cooperative_copies::begun> cooperative_copies::begin(std::uint64_t length,
                                                                   std::uint32_t piece) noexcept {
  const auto free = std::find(in_use_.begin(), in_use_.end(), false);
  if (free == in_use_.end()) return std::nullopt;
  *free = true;
  const auto which = static_cast<std::uint32_t>(free - in_use_.begin());
  begun b{cooperative_copy(words_[which], {++last_number_, piece, length}), which};
  b.copy.start();
  return b;
}

}  // namespace gaudi::ipc
