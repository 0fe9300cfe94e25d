// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_registry.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/driver_call.hpp"
#include "base/log.hpp"
#include "device/host_page.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::device {

using base::error;
using base::result;

namespace {

/// 0, or why a lost device is not out of the way.
int keeps_lost(const device& known) {
  if (known.is_vacant()) return 0;
  GAUDI_WARN(MR,
             "%s was lost, and is not opened anew before what was allocated or adopted there is "
             "freed or released: its addresses will be given again.\n",
             known.attributes().bus_id.c_str());
  return known.lost();
}

/// What opens a device again: itself, as the first free one would be another while this resets.
device_spec again(const device_spec& which, const device& lost) {
  if (lost.lost() == -FI_ENODEV) return which;
  return device_spec{device_spec::by_bus_id{lost.attributes().bus_id}};
}

}  // namespace

result<std::shared_ptr<const hl::thunk>> device_registry::library_locked(const std::string& path) {
  if (library_) return library_;
  if (library_failure_ != 0) return error{library_failure_};
  auto loaded = hl::thunk::load(path);
  if (!loaded) {
    // A shortage of memory passes.
    if (loaded.code() != -FI_ENOMEM) library_failure_ = loaded.code();
    return loaded;
  }
  library_ = *std::move(loaded);
  return library_;
}

result<std::shared_ptr<const hl::thunk>> device_registry::library(const std::string& path) {
  const base::scoped_lock lock(mutex_);
  return library_locked(path);
}

result<std::vector<device_registry::entry>> device_registry::entries_for(const settings& config) {
  auto chosen = device_list::parse(config.device);
  if (!chosen) return chosen.failure();
  std::vector<entry> places;
  for (device_spec& which : chosen->listed) places.emplace_back().which = std::move(which);
  if (!chosen->all) return places;
  const auto loaded = library_locked(config.library);
  if (!loaded) return loaded.failure();
  const auto indices = device_indices(**loaded);
  if (!indices) return indices.failure();
  for (const int index : *indices)
    places.emplace_back().which.choice.emplace<device_spec::by_index>().value = index;
  return places;
}

result<void> device_registry::list(const settings& config) {
  if (listed_) return {};
  auto places = entries_for(config);
  if (!places) return places.failure();
  if (places->size() > max_devices) {
    GAUDI_WARN(CORE, "FI_GAUDI_DEVICE lists %zu devices; %u at most can be used.\n", places->size(),
               max_devices);
    return error{-FI_EINVAL};
  }
  entries_ = *std::move(places);
  listed_ = true;
  count_.store(static_cast<unsigned>(entries_.size()), std::memory_order_release);
  return {};
}

result<unsigned> device_registry::count(const settings& config) {
  const base::scoped_lock lock(mutex_);
  if (const auto rc = list(config); !rc) return rc.failure();
  return static_cast<unsigned>(entries_.size());
}

bool device_registry::is_open(const device& one) const noexcept {
  bool known = false;
  for (unsigned i = 0; i < open_count_.load(std::memory_order_relaxed); ++i)
    known |= open_[i].load(std::memory_order_relaxed) == &one;
  return known;
}

// A reader that has an address of the device got it after this: it then sees the count, and that
// there is not just one.
void device_registry::put(unsigned number, std::shared_ptr<device> found) {
  device* const added = found.get();
  entries_[number].opened = std::move(found);
  if (!is_open(*added)) {
    const unsigned before = open_count_.load(std::memory_order_relaxed);
    open_[before].store(added, std::memory_order_relaxed);
    open_count_.store(before + 1, std::memory_order_release);
    only_.store(before == 0 ? added : nullptr, std::memory_order_release);
  }
  by_number_[number].store(added, std::memory_order_release);
}

// In all its places; who still knows the lost one by its address finds it as long as the table is.
void device_registry::follow(const device& lost, const std::shared_ptr<device>& found) {
  device* const added = found.get();
  for (unsigned i = 0; i < open_count_.load(std::memory_order_relaxed); ++i)
    if (open_[i].load(std::memory_order_relaxed) == &lost)
      open_[i].store(added, std::memory_order_release);
  if (only_.load(std::memory_order_relaxed) == &lost) only_.store(added, std::memory_order_release);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].opened.get() != &lost) continue;
    retired_.push_back(std::exchange(entries_[i].opened, found));
    by_number_[i].store(added, std::memory_order_release);
  }
}

/// Lets go of the mutex, and keeps others from opening the same device meanwhile. The analysis
/// knows no lock that is held but for a while.
class device_registry::opening_guard {
 public:
  opening_guard(device_registry& all, unsigned number) GAUDI_NO_THREAD_SAFETY : all_(all),
                                                                                number_(number) {
    all_.entries_[number_].is_opening = true;
    all_.mutex_.unlock();
  }
  opening_guard(const opening_guard&) = delete;
  opening_guard& operator=(const opening_guard&) = delete;
  ~opening_guard() GAUDI_NO_THREAD_SAFETY {
    all_.mutex_.lock();
    all_.entries_[number_].is_opening = false;
    all_.opened_one_.notify_all();
  }

 private:
  device_registry& all_;
  const unsigned number_;
};

result<std::shared_ptr<device>> device_registry::at(unsigned number, const settings& config) {
  if (auto ready = opened(number); ready && ready->lost() == 0) return ready;
  const base::scoped_lock lock(mutex_);
  if (const auto rc = list(config); !rc) return rc.failure();
  if (entries_.empty()) {
    GAUDI_WARN(CORE,
               "FI_GAUDI_DEVICE=all, but this machine has no Gaudi: load the habanalabs driver.\n");
    return error{-FI_ENODEV};
  }
  if (number >= entries_.size()) return error{-FI_EINVAL};
  while (entries_[number].is_opening) opened_one_.wait(mutex_);
  return obtain(number, config);
}

result<std::shared_ptr<device>> device_registry::obtain(unsigned number, const settings& config) {
  const std::shared_ptr<device> before = entries_[number].opened;
  if (before && before->lost() == 0) return before;
  const auto loaded = library_locked(config.library);
  if (!loaded) return loaded.failure();
  const device_spec which = entries_[number].which;
  auto found = [&] {
    const opening_guard meanwhile(*this, number);
    const base::outstanding::driver_call shown(base::outstanding::call_kind::open_device,
                                               static_cast<std::int32_t>(number), 0);
    return before ? reopen(number, config, which, *loaded, *before)
                  : open_first(number, config, which, *loaded);
  }();
  // An application may have adopted one here meanwhile.
  const std::shared_ptr<device> now = entries_[number].opened;
  if (now != before && now->lost() == 0) return now;
  if (!found) return found;
  now ? follow(*now, *found) : put(number, *found);
  return found;
}

result<std::shared_ptr<device>> device_registry::reopen(
    unsigned number, const settings& config, const device_spec& which,
    const std::shared_ptr<const hl::thunk>& library, const device& lost) {
  if (const int gone = keeps_lost(lost); gone != 0) return error{gone};
  const device_spec same = again(which, lost);
  return lost.attributes().owned ? open_first(number, config, same, library)
                                 : lost.reopened_device(same);
}

result<std::shared_ptr<device>> device_registry::open_first(
    unsigned number, const settings& config, const device_spec& which,
    const std::shared_ptr<const hl::thunk>& library) {
  auto synapse = hl::synapse::find();
  if (!synapse && synapse.code() == -FI_ENOSYS)
    return device::open(library, which, config.reset_timeout);
  if (!synapse) return synapse.failure();
  if (number == 0) return device::attach_synapse(library, *std::move(synapse));
  GAUDI_WARN(CORE,
             "this process uses libSynapse, which has one device in a process: that is number 0, "
             "and there is no number %u, whatever FI_GAUDI_DEVICE says.\n",
             number);
  return error{-FI_ENODEV};
}

bool device_registry::attach_guest() noexcept {
  const auto ready = opened(0);
  if (ready && ready->lost() == 0) return false;
  const auto attached = hl::or_no_memory([&]() -> result<std::shared_ptr<device>> {
    if (const auto used = hl::synapse::find(); !used) return used.failure();
    const auto config = [&] {
      const base::scoped_lock lock(mutex_);
      return config_of_users_;
    }();
    return at(0, config);
  });
  return static_cast<bool>(attached);
}

void device_registry::enter(const settings& config) {
  const base::scoped_lock lock(mutex_);
  config_of_users_ = config;
  if (users_++ != 0) return;
  for (const entry& one : entries_)
    if (one.opened) one.opened->resume();
}

void device_registry::leave() noexcept {
  const base::scoped_lock lock(mutex_);
  if (--users_ != 0) return;
  for (const entry& one : entries_)
    if (one.opened) one.opened->suspend();
}

std::shared_ptr<device> device_registry::opened(unsigned number) const noexcept {
  device* const open = known(number);
  return open ? open->weak_from_this().lock() : nullptr;
}

void device_registry::add(std::shared_ptr<device> open) {
  const base::scoped_lock lock(mutex_);
  listed_ = true;
  entries_.emplace_back();
  put(static_cast<unsigned>(entries_.size() - 1), std::move(open));
  count_.store(static_cast<unsigned>(entries_.size()), std::memory_order_release);
}

result<unsigned> device_registry::adopt(const settings& config, int fd) {
  const base::scoped_lock lock(mutex_);
  if (const auto rc = list(config); !rc) return rc.failure();
  const auto loaded = library_locked(config.library);
  if (!loaded) return loaded.failure();
  auto found = device::adopt(*loaded, fd);
  if (!found) return found.failure();
  if (is_open(**found)) {
    if (!(*found)->was_found()) return error{-FI_EBUSY};
    return number_of(**found);
  }
  const auto number = entry_for(**found);
  if (!number) return number;
  if (const auto before = entries_[*number].opened)
    follow(*before, *found);
  else
    put(*number, *std::move(found));
  count_.store(static_cast<unsigned>(entries_.size()), std::memory_order_release);
  return number;
}

unsigned device_registry::number_of(const device& known) const noexcept {
  unsigned number = 0;
  while (entries_[number].opened.get() != &known) ++number;
  return number;
}

result<unsigned> device_registry::entry_for(const device& adopted) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto& known = entries_[i].opened;
    const bool is_single = entries_.size() == 1;
    if (!known && is_single) return 0U;
    if (!known || known->lost() == 0) continue;
    if (!is_single && known->attributes().bus_id != adopted.attributes().bus_id) continue;
    if (const int gone = keeps_lost(*known); gone != 0) return error{gone};
    return static_cast<unsigned>(i);
  }
  if (entries_.size() == max_devices) return error{-FI_ENOSPC};
  entries_.emplace_back();
  return static_cast<unsigned>(entries_.size() - 1);
}

device_registry::owner_lookup device_registry::find_among_several(
    std::uint64_t addr) const noexcept {
  owner_lookup found;
  each_owner(addr, [&](device& one) {
    found.several |= found.owner != nullptr;
    found.owner = &one;
  });
  if (found.several) found.owner = nullptr;
  return found;
}

bool device_registry::is_surely_device(std::uint64_t addr) const noexcept {
  return is_device_address(addr) || (is_known(addr) && !has_host_page(addr));
}

void device_registry::clear() {
  const base::scoped_lock lock(mutex_);
  count_.store(0, std::memory_order_release);
  only_.store(nullptr, std::memory_order_release);
  open_count_.store(0, std::memory_order_release);
  for (auto& one : by_number_) one.store(nullptr, std::memory_order_release);
  entries_.clear();
  retired_.clear();
  listed_ = false;
  library_failure_ = 0;
}

}  // namespace gaudi::device
