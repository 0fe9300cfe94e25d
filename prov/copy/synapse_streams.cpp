// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/synapse_streams.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace gaudi::copy {
namespace {

using base::result;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds min_pause{5};
constexpr microseconds max_pause{500};

hl::syn_direction in_synapse(direction dir) noexcept {
  switch (dir) {
    case direction::host_to_device:
      return hl::syn_direction::host_to_device;
    case direction::device_to_host:
      return hl::syn_direction::device_to_host;
    case direction::device_to_device:
      break;
  }
  return hl::syn_direction::device_to_device;
}

}  // namespace

result<std::unique_ptr<synapse_streams>> synapse_streams::make(
    std::shared_ptr<device::device> owner) {
  auto made = std::make_unique<synapse_streams>(passkey{}, std::move(owner));
  if (const auto rc = made->create(); !rc) return rc.failure();
  return made;
}

result<void> synapse_streams::create() {
  for (hl::syn_stream& each : streams_) {
    const auto stream = synapse().make_stream();
    if (!stream) return stream.failure();
    each = *stream;
  }
  events_.reserve(slot_count);
  while (events_.size() < slot_count) {
    const auto event = synapse().make_event();
    if (!event) return event.failure();
    events_.push_back(*event);
  }
  return {};
}

// A lost device's are left to Synapse, which may wait for them.
synapse_streams::~synapse_streams() {
  if (owner_->lost() != 0) return;
  for (hl::syn_event event : events_) synapse().destroy_event(event);
  for (hl::syn_stream stream : streams_)
    if (stream != nullptr) synapse().destroy_stream(stream);
}

// What another thread gives the stream in between only makes the event later.
result<void> synapse_streams::start(unsigned slot, std::span<const copy_part> parts,
                                    direction dir) {
  hl::syn_stream stream = streams_[static_cast<std::size_t>(dir)];
  const copy_part& one = parts.front();
  const auto rc = synapse().copy(stream, one.dst, one.src, one.length, in_synapse(dir));
  if (!rc) return rc;
  copies_[slot].stream = stream;
  // The copy is under way, so its memory must not be given away: without an event its end is not
  // known, and query() makes one up for it.
  static_cast<void>(record(slot));
  return {};
}

result<void> synapse_streams::record(unsigned slot) {
  copy_in_flight& one = copies_[slot];
  const auto rc = synapse().record(events_[slot], one.stream);
  one.is_recorded = static_cast<bool>(rc);
  return rc;
}

result<hl::cs_status> synapse_streams::query(unsigned slot) {
  const auto is_loss = [](int code) {
    return code == -FI_EIO || code == -FI_ENODEV || code == -FI_ETIMEDOUT;
  };
  if (!copies_[slot].is_recorded) {
    const auto rc = record(slot);
    if (!rc && is_loss(rc.code())) return rc.failure();
    if (!rc) return hl::cs_status::busy;
  }
  const auto state = synapse().query(events_[slot]);
  return state || is_loss(state.code()) ? state : result<hl::cs_status>(hl::cs_status::busy);
}

result<hl::cs_status> synapse_streams::wait(unsigned slot, std::uint64_t timeout_us) {
  const auto begin = steady_clock::now();
  for (microseconds pause = min_pause;; pause = std::min(2 * pause, max_pause)) {
    auto state = query(slot);
    const bool is_busy = state && *state == hl::cs_status::busy;
    if (!is_busy || timeout_us == 0) return state;
    const microseconds left = microseconds(timeout_us) -
                              std::chrono::duration_cast<microseconds>(steady_clock::now() - begin);
    if (left <= microseconds::zero()) return state;
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

}  // namespace gaudi::copy
