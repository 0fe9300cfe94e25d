// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/rts.hpp"

#include <algorithm>
#include <cstring>

namespace gaudi::proto {

std::size_t rts_size(const wire::rts_fields& rts) noexcept {
  return offsetof(wire::rts_fields, segments) + rts.segment_count * sizeof(wire::segment);
}

std::size_t put_rts(std::byte* at, const wire::rts_fields& rts) noexcept {
  const std::size_t size = rts_size(rts);
  std::memcpy(at, &rts, size);
  return size;
}

bool parse_rts(const std::byte* bytes, std::size_t length, wire::rts_fields& out,
               std::uint8_t flags) {
  constexpr std::size_t fixed = offsetof(wire::rts_fields, segments);
  if (length < fixed) return false;
  std::memcpy(&out, bytes, std::min(length, sizeof out));
  if (flags & wire::needs_cts) return out.segment_count == 0;
  if (out.segment_count > wire::max_segments ||
      length < fixed + out.segment_count * sizeof(wire::segment))
    return false;
  std::uint64_t named = 0;
  for (std::uint32_t i = 0; i < out.segment_count; ++i) {
    if (out.segments[i].length > out.length - named) return false;
    named += out.segments[i].length;
  }
  return named == out.length;
}

bool name_allocations(const local_memory& memory, wire::rts_fields& rts) noexcept {
  if (!memory.only_on_device()) return false;
  for (std::size_t i = 0; i < memory.count(); ++i) {
    const local_segment& s = memory[i];
    if (s.length == 0) continue;
    const auto where = s.owner->find(s.address, s.length);
    if (!where) return false;
    rts.segments[rts.segment_count++] = {s.address, where->allocation_id, s.length};
  }
  return true;
}

}  // namespace gaudi::proto
