// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/nic_copies.hpp"

#include <chrono>
#include <cstring>

#include "base/log.hpp"
#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {

bool nic_copies::copy(const buffer& from, std::size_t at, const local_memory& to,
                      std::size_t length) {
  if (!loop_ || length > limit_.limit() || !to.core_reaches(0)) return false;
  device::device* const on = to[0].owner;
  const bool is_timed = to.count() == 1 && on && limit_.wants_time(length);
  using std::chrono::steady_clock;
  const auto began = is_timed ? steady_clock::now() : steady_clock::time_point{};
  if (!bring(from, at, to, length)) return false;
  if (is_timed) {
    const std::chrono::duration<double, std::nano> took = steady_clock::now() - began;
    compare(*on, length, took.count());
  }
  return true;
}

// A device without an engine leaves it to the NIC.
void nic_copies::compare(device::device& on, std::size_t length, double nic_ns) {
  if (!limit_.add_sample(length, nic_ns) || !on.generation().copies) return;
  const auto engine = engines_.engine_for(on);
  const bool flushes = flush_ && flush_->reads_back(on);
  if (engine && limit_.update(length, (*engine)->table()[copy::direction::host_to_device], flushes))
    GAUDI_INFO(EP_DATA, "short messages to %s: by the NIC up to %s, else by the engine\n",
               on.attributes().bus_id.c_str(), copy::limit_text(limit_.limit()).c_str());
}

bool nic_copies::bring(const buffer& from, std::size_t at, const local_memory& to,
                       std::size_t length) const {
  std::size_t done = 0;
  while (done < length) {
    const auto place = to.at(done);
    const std::size_t part = std::min(length - done, place.left());
    if (place.segment->is_host()) {
      std::memcpy(reinterpret_cast<void*>(place.address()), from.bytes + at + done, part);
    } else if (const core::local_place there{reinterpret_cast<std::byte*>(place.address()),
                                             place.segment->core_descriptor()};
               !loop_->copy(there, {from.bytes + at + done, from.descriptor()}, part)) {
      return false;
    } else if (place.segment->owner) {
      place.segment->owner->counted().staged_bytes.add(part);
    }
    done += part;
  }
  return true;
}

}  // namespace gaudi::proto
