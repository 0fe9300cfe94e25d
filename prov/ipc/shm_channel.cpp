// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/shm_channel.hpp"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gaudi::ipc {
namespace {

segment_shape shape_for(const shm_channel::config& t) noexcept {
  return {.capacity = std::max(t.kernel->min_ring(), ring_capacity(t.largest_packet)),
          .slots = t.slots,
          .slot_size = (t.slot_size + segment_page - 1) & ~(segment_page - 1)};
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

shm_channel::shm_channel(segment memory, control_socket with, end which, const config& ours)
    : cookie_(random_number()),
      kernel_(*ours.kernel),
      memory_(std::move(memory)),
      handshake_(std::move(with)),
      end_(which),
      other_(which == end::creator ? end::attacher : end::creator),
      out_(memory_.writer(end_)),
      in_(memory_.reader(other_)),
      cooperative_copies_(memory_.copy_state_of(end_)) {
  peer_info& facts = memory_.peer_info_of(end_);
  facts.probe_address = reinterpret_cast<std::uint64_t>(&cookie_);
  facts.probe_cookie = cookie_;
  facts.sleeps = ours.sleeps;
}

void shm_channel::leave() noexcept {
  memory_.peer_info_of(end_).cma.store(cma_state::gone, std::memory_order_release);
}

base::result<std::unique_ptr<shm_channel>> shm_channel::make(const fd_handshake_id& says,
                                                             const config& ours) {
  base::scoped_fd memory;
  auto made = segment::make(shape_for(ours), memory, *ours.kernel);
  if (!made) return made.failure();
  std::unique_ptr<shm_channel> l(new shm_channel(std::move(*made), {}, end::creator, ours));
  // Only now: the peer reads the facts as soon as it has it.
  auto with = ours.kernel->send_fd(says, memory.get());
  if (!with) return with.failure();
  l->handshake_ = std::move(*with);
  return l;
}

base::result<std::unique_ptr<shm_channel>> shm_channel::take(received_fd&& brought,
                                                             const config& ours) {
  auto taken = segment::take(brought.memory.get(), *ours.kernel);
  if (!taken) return taken.failure();
  std::unique_ptr<shm_channel> l(
      new shm_channel(std::move(*taken), std::move(brought.with), end::attacher, ours));
  l->learn_of_peer();
  if (const int ret = answer(l->handshake_, true)) return base::error{ret};
  l->handshake_.socket.reset();
  return l;
}

std::optional<bool> shm_channel::agreed() {
  const auto said = answer_of(handshake_);
  if (said == true) learn_of_peer();
  if (said) handshake_.socket.reset();
  return said;
}

void shm_channel::learn_of_peer() {
  const peer_info& peer = memory_.peer_info_of(other_);
  peer_sleeps_ = peer.sleeps != 0;
  auto found = kernel_.find(handshake_, peer.probe_address, peer.probe_cookie);
  if (found) {
    peer_ = std::move(*found);
  } else {
    why_not_ = found.code();
  }
  memory_.peer_info_of(end_).cma.store(cma() ? cma_state::yes : cma_state::no,
                                       std::memory_order_release);
}

void shm_channel::disable_cma(int why) noexcept {
  why_not_ = why;
  memory_.peer_info_of(end_).cma.store(cma_state::no, std::memory_order_release);
}

}  // namespace gaudi::ipc
