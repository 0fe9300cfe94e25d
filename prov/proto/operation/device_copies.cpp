// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/device_copies.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>

namespace gaudi::proto {
namespace {

copy::app_place place_of(const local_memory::place& p) noexcept {
  return {p.address(), p.segment->owner, p.segment->registered, p.segment->is_host()};
}

}  // namespace

int device_copies::start(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                         std::size_t length, copy::direction dir) noexcept {
  int ret = -FI_ENOMEM;
  try {
    ret = start_all(b, at, memory, offset, length, dir);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (ret && b.copies) wait_for(b);
  return ret;
}

int device_copies::start_all(buffer& b, std::size_t at, const local_memory& memory,
                             std::size_t offset, std::size_t length, copy::direction dir) {
  while (length) {
    const auto place = memory.at(offset);
    const std::size_t part = std::min(length, place.left());
    if (const int ret = router_.submit(b, b.place(at), place_of(place), part, dir)) return ret;
    at += part;
    offset += part;
    length -= part;
  }
  return 0;
}

bool device_copies::bring_short(const buffer& from, std::size_t at, const local_memory& to,
                                std::size_t length) {
  if (!router_.brings_short(length) || !to.core_reaches(0)) return false;
  for (std::size_t done = 0; done < length;) {
    const auto place = to.at(done);
    const std::size_t part = std::min(length - done, place.left());
    if (!router_.bring_short(from.place(at + done), place_of(place), part, to.count() == 1))
      return false;
    done += part;
  }
  return true;
}

base::clock::time_point device_copies::copy_began() noexcept {
  using stream = latency_sampler::stream;
  return latencies_.is_due(stream::copy) ? latencies_.begin(stream::copy)
                                         : base::clock::time_point{};
}

void device_copies::copy_took(base::clock::time_point began) noexcept {
  latencies_.end(latency_sampler::kind::device_copy, began);
}

}  // namespace gaudi::proto
