// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/session/sent_packets.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace gaudi::proto {
namespace {

constexpr std::size_t first_capacity = 512;  // bytes

}  // namespace

sent_packets::packet sent_packets::at(std::size_t place) noexcept {
  const std::size_t from = start(place);
  const std::uint64_t head = head_at(from);
  std::byte* const bytes = &ring_[mask(from)] + word;
  packet p;
  p.number = first_;
  if (head == is_buffer) {
    std::uintptr_t address = 0;
    std::memcpy(&address, bytes, word);
    p.whole = reinterpret_cast<buffer*>(address);  // NOLINT(performance-no-int-to-ptr): it was one
  } else {
    p.bytes = {bytes, static_cast<std::size_t>(head)};
  }
  return p;
}

// A new ring, with the same records in it.
bool sent_packets::grow(std::size_t bytes) noexcept try {
  sent_packets larger;
  const std::size_t needed = (used_ - freed_) + 2 * padded(std::max(bytes, word));
  larger.ring_.resize(std::bit_ceil(std::max({first_capacity, 2 * ring_.size(), needed})));
  larger.first_ = first_;
  each_from(first_, [&](const packet& p) {
    p.whole ? larger.add(*p.whole) : larger.add(p.bytes.data(), p.bytes.size());
    return true;
  });
  ring_.swap(larger.ring_);
  used_ = larger.used_;
  freed_ = 0;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace gaudi::proto
