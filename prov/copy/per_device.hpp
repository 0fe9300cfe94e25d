// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <map>
#include <memory>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "device/device.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::copy {

/// Gives all who ask the same object for a device, for as long as one of them has it. An object
/// holds its device, so a device's address is not used again while it is a key with a live object.
/// Thread safe.
template <class Object>
class per_device {
 public:
  /// The object of `owner`, made by `make` (which gives a result<shared_ptr<Object>>) if there is
  /// none.
  template <class Make>
  base::result<std::shared_ptr<Object>> get(const std::shared_ptr<device::device>& owner,
                                            Make&& make) {
    return hl::or_no_memory([&]() -> base::result<std::shared_ptr<Object>> {
      const base::scoped_lock lock(mutex_);
      std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
      if (auto known = objects_[owner.get()].lock()) return known;
      auto made = make();
      if (made) objects_[owner.get()] = *made;
      return made;
    });
  }

 private:
  base::mutex mutex_;
  std::map<const device::device*, std::weak_ptr<Object>> objects_ GAUDI_GUARDED_BY(mutex_);
};

}  // namespace gaudi::copy
