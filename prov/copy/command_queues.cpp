// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/command_queues.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace gaudi::copy {

using base::error;
using base::result;

namespace {

error refuse(device::device& owner) {
  if (owner.tell_no_copies())
    GAUDI_WARN(
        CORE,
        "%s %s offers no copies through libhl-thunk: its driver takes them from nobody. What "
        "needs one fails (%s): copies by the application, atomic operations, staged data. "
        "Use an RDMA NIC that reaches its memory (FI_GAUDI_CORE=verbs; gaudi_info --doctor tries "
        "each), which then copies by itself, or Synapse in this process.\n",
        owner.attributes().name.c_str(), owner.attributes().bus_id.c_str(),
        fi_strerror(FI_EOPNOTSUPP));
  return error{-FI_EOPNOTSUPP};
}

}  // namespace

result<std::unique_ptr<command_queues>> command_queues::make(
    const std::shared_ptr<device::device>& owner) {
  if (!owner->generation().copies) return refuse(*owner);
  auto commands = command_memory::make(owner, max_slots, slot_bytes);
  if (!commands) return commands.failure();
  return std::make_unique<command_queues>(passkey{}, owner, *std::move(commands));
}

command_queues::command_queues(passkey, std::shared_ptr<device::device> owner,
                               command_memory commands)
    : owner_(std::move(owner)), commands_(std::move(commands)) {}

unsigned command_queues::slots() const noexcept {
  return std::min(owner_->generation().max_in_flight, max_slots);
}

std::uint32_t command_queues::queue_for(direction dir) noexcept {
  const auto& traits = owner_->generation();
  const auto& queues = dir == direction::host_to_device   ? traits.host_to_device
                       : dir == direction::device_to_host ? traits.device_to_host
                                                          : traits.device_to_device;
  return queues[next_queue_.fetch_add(1, std::memory_order_relaxed) % queues.size()];
}

std::uint32_t command_queues::write_packets(unsigned slot,
                                            std::span<const copy_part> parts) noexcept {
  auto* packet = reinterpret_cast<hl::lin_dma*>(commands_.at(slot));
  std::uint32_t bytes = 0;
  for (copy_part left : parts) {
    for (; left.length > 0; bytes += sizeof *packet, ++packet) {
      const std::uint64_t size = std::min(left.length, packet_limit);
      *packet = {.size = static_cast<std::uint32_t>(size),
                 .ctl = owner_->generation().lin_dma_ctl,
                 .src = left.src,
                 .dst = left.dst};
      left = {left.dst + size, left.src + size, left.length - size};
    }
  }
  return bytes;
}

result<void> command_queues::start(unsigned slot, std::span<const copy_part> parts, direction dir) {
  std::uint64_t packets = 0;
  for (const copy_part& part : parts)
    packets += part.length / packet_limit + (part.length % packet_limit != 0);
  if (packets > max_packets) return error{-FI_EINVAL};
  const hl::cs_chunk chunk = commands_.chunk(slot, write_packets(slot, parts), queue_for(dir));
  const auto number = owner_->thunk().submit(owner_->fd(), chunk);
  if (!number) return number.failure();
  submissions_[slot] = *number;
  return {};
}

result<hl::cs_status> command_queues::wait(unsigned slot, std::uint64_t timeout_us) {
  return owner_->thunk().wait(owner_->fd(), submissions_[slot], timeout_us);
}

}  // namespace gaudi::copy
