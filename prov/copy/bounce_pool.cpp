// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/bounce_pool.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::copy {

struct bounce_pool::slab {
  host_pages pages;
  std::optional<pinned_region> pin;  // after pages: unmapped first
  void* cookie = nullptr;
  std::vector<chunk> chunks;
};

bounce_pool::bounce_pool(std::shared_ptr<device::device> owner)
    : bounce_pool(std::move(owner), options{}) {}

bounce_pool::bounce_pool(std::shared_ptr<device::device> owner, const options& sizes,
                         hooks slab_hooks)
    : owner_(std::move(owner)), options_(sizes), hooks_(std::move(slab_hooks)) {}

bounce_pool::~bounce_pool() {
  assert(in_use_ == 0);
  if (!hooks_.off_slab) return;
  for (const auto& each : slabs_) hooks_.off_slab(each->cookie);
}

base::result<void> bounce_pool::add_slab() {
  const std::size_t count = std::min(options_.chunks_per_slab, options_.limit - made_);
  auto pages = host_pages::allocate(count * options_.chunk_size);
  if (!pages) return pages.failure();
  auto added = std::make_unique<slab>(slab{.pages = *std::move(pages), .pin = {}, .chunks = {}});
  slab& into = *added;
  into.chunks.reserve(count);
  slabs_.reserve(slabs_.size() + 1);
  if (owner_) {
    auto pin = pinned_region::map(owner_, into.pages.data(), into.pages.len());
    if (!pin) return pin.failure();
    into.pin.emplace(*std::move(pin));
  }
  if (hooks_.on_slab) {
    const auto cookie = hooks_.on_slab(into.pages.data(), into.pages.len());
    if (!cookie) return cookie.failure();
    into.cookie = *cookie;
  }
  // Nothing fails from here on, so the hook need not be undone.
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t offset = i * options_.chunk_size;
    free_ =
        &into.chunks.emplace_back(chunk{.host = into.pages.data() + offset,
                                        .device_va = into.pin ? into.pin->device_va() + offset : 0,
                                        .size = options_.chunk_size,
                                        .cookie = into.cookie,
                                        .slab = into.pages.data(),
                                        .next_free = free_});
  }
  made_ += count;
  slabs_.push_back(std::move(added));
  return {};
}

bounce_pool::chunk* bounce_pool::acquire() {
  if (free_ == nullptr && made_ < options_.limit) {
    const auto rc = hl::or_no_memory([&] { return add_slab(); });
    if (!rc && !std::exchange(warned_, true))
      GAUDI_WARN(
          CORE,
          "cannot add a bounce buffer slab (%s), so staged copies go on with %zu chunks of %zu "
          "bytes. Raise the memory limits of the process.\n",
          fi_strerror(-rc.code()), made_, options_.chunk_size);
  }
  if (free_ == nullptr) return nullptr;
  ++in_use_;
  return std::exchange(free_, free_->next_free);
}

void bounce_pool::release(chunk* returned) noexcept {
  assert(returned != nullptr && in_use_ > 0);
  --in_use_;
  returned->next_free = std::exchange(free_, returned);
}

}  // namespace gaudi::copy
