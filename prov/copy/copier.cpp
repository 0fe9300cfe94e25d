// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/copier.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/per_process.hpp"
#include "copy/per_device.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::copy {

using base::error;
using base::result;

result<std::shared_ptr<copier>> copier::for_device(const std::shared_ptr<device::device>& owner,
                                                   const engine_config& config) {
  auto& copiers = base::per_process<per_device<copier>>::get();
  return copiers.get(owner, [&]() -> result<std::shared_ptr<copier>> {
    auto engine = dma_engine::for_device(owner, config);
    if (!engine) return engine.failure();
    return std::make_shared<copier>(passkey{}, *std::move(engine));
  });
}

copier::copier(passkey, std::shared_ptr<dma_engine> engine)
    : engine_(std::move(engine)), chunks_(engine_->owner(), {.chunks_per_slab = 8, .limit = 64}) {}

result<std::unique_ptr<operation>> copier::start(std::uint64_t dst, std::uint64_t src,
                                                 std::uint64_t len, direction dir) {
  return hl::or_no_memory([&]() -> result<std::unique_ptr<operation>> {
    auto made =
        std::make_unique<operation>(operation::passkey{}, shared_from_this(), dst, src, len, dir);
    const base::scoped_lock lock(mutex_);
    made->owner_->mutex_.assert_held();
    active_.push_back(made.get());
    if (const auto rc = made->prepare(); !rc) {
      made->release_all();
      return rc.failure();
    }
    made->step();
    return made;
  });
}

result<void> copier::copy(std::uint64_t dst, std::uint64_t src, std::uint64_t len, direction dir) {
  auto copying = start(dst, src, len, dir);
  if (!copying) return copying.failure();
  const int rc = (*copying)->wait(-1);
  return rc == 0 ? result<void>{} : error{rc};
}

void copier::step_all() {
  // Backwards, because an operation that ends takes itself off the list.
  for (std::size_t i = active_.size(); i-- > 0;) {
    if (i >= active_.size()) continue;
    operation& one = *active_[i];
    one.owner_->mutex_.assert_held();
    one.step();
  }
}

result<void> copy_sync(const std::shared_ptr<device::device>& owner, std::uint64_t dst,
                       std::uint64_t src, std::uint64_t len, direction dir) {
  const auto used = copier::for_device(owner);
  if (!used) return used.failure();
  return (*used)->copy(dst, src, len, dir);
}

}  // namespace gaudi::copy
