// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/shared_slots.hpp"

#include <algorithm>

namespace gaudi::proto {

shared_slots::shared_slots(std::span<std::byte> area, std::size_t slot_size)
    : slab_(buffer_slab::over(area, posted_op::kind::chunk, slot_size)) {
  for (const auto& b : slab_->buffers()) b->home.slots = this;
}

// A few slots: to look for a free one takes less than a list of them.
buffer* shared_slots::acquire() noexcept {
  auto& all = slab_->buffers();
  const auto free =
      std::find_if(all.begin(), all.end(), [](const auto& b) { return !b->home.taken; });
  if (free == all.end()) return nullptr;
  (*free)->home.taken = true;
  return free->get();
}

buffer* shared_slots::take(std::uint64_t number) noexcept {
  auto& all = slab_->buffers();
  if (number >= all.size() || all[number]->home.taken) return nullptr;
  all[number]->home.taken = true;
  return all[number].get();
}

void release_staging(buffer& b) noexcept {
  b.home.slots ? b.home.slots->release(b) : b.home.pool->release(b);
}

}  // namespace gaudi::proto
