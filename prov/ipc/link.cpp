// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/link.hpp"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace gaudi::ipc {
namespace {

// Small enough to stay in the processors' caches while it goes round.
constexpr std::size_t least_capacity = std::size_t{128} * 1024;

segment_shape shape_for(const link::terms& t) noexcept {
  constexpr std::size_t page = 4096;
  return {.capacity = std::max(least_capacity, std::bit_ceil(4 * t.largest_packet)),
          .slots = t.slots,
          .slot_size = (t.slot_size + page - 1) & ~(page - 1)};
}

// Found nowhere else, nor in another process at the same place.
std::uint64_t random_number() noexcept {
  std::uint64_t value = 0;
  // Fails only early in a boot; each process still has its number then.
  if (::getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value)
    value = static_cast<std::uint64_t>(::getpid()) * 0x9e3779b97f4a7c15;
  return value;
}

}  // namespace

link::link(segment memory, conversation with, end which, const terms& ours)
    : proof_(random_number()),
      memory_(std::move(memory)),
      with_(std::move(with)),
      end_(which),
      other_(which == end::maker ? end::taker : end::maker),
      out_(memory_.writer(end_)),
      in_(memory_.reader(other_)),
      joint_copies_(memory_.joint_words_of(end_)) {
  end_facts& facts = memory_.facts_of(end_);
  facts.proof_address = reinterpret_cast<std::uint64_t>(&proof_);
  facts.proof_value = proof_;
  facts.sleeps = ours.sleeps;
}

void link::leave() noexcept {
  memory_.facts_of(end_).reaches.store(reaching::gone, std::memory_order_release);
}

base::result<std::unique_ptr<link>> link::make(const invitation& says, const terms& ours) {
  base::scoped_fd memory;
  auto made = segment::make(shape_for(ours), memory);
  if (!made) return made.failure();
  std::unique_ptr<link> l(new link(std::move(*made), {}, end::maker, ours));
  // Only now: the peer reads the facts as soon as it has it.
  auto with = invite(says, memory.get());
  if (!with) return with.failure();
  l->with_ = std::move(*with);
  return l;
}

base::result<std::unique_ptr<link>> link::take(meeting_point::arrival&& brought,
                                               const terms& ours) {
  auto taken = segment::take(brought.memory.get());
  if (!taken) return taken.failure();
  std::unique_ptr<link> l(new link(std::move(*taken), std::move(brought.with), end::taker, ours));
  l->learn_of_peer();
  if (const int ret = answer(l->with_, true)) return base::error{ret};
  l->with_.socket.reset();
  return l;
}

std::optional<bool> link::agreed() {
  const auto said = answer_of(with_);
  if (said == true) learn_of_peer();
  if (said) with_.socket.reset();
  return said;
}

void link::learn_of_peer() {
  const end_facts& peer = memory_.facts_of(other_);
  peer_sleeps_ = peer.sleeps != 0;
  auto found = neighbour::find(with_.pid, peer.proof_address, peer.proof_value);
  if (found) {
    peer_ = std::move(*found);
  } else {
    why_not_ = found.code();
  }
  memory_.facts_of(end_).reaches.store(reach() ? reaching::yes : reaching::no,
                                       std::memory_order_release);
}

void link::lose_reach(int why) noexcept {
  why_not_ = why;
  memory_.facts_of(end_).reaches.store(reaching::no, std::memory_order_release);
}

}  // namespace gaudi::ipc
