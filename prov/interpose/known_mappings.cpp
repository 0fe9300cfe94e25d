// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interpose/known_mappings.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace gaudi::interpose {

known_mappings& known_mappings::instance() noexcept {
  alignas(known_mappings) static std::byte place[sizeof(known_mappings)];
  static auto* const all = new (place) known_mappings;
  return *all;
}

void known_mappings::allocated(context_id on, std::uint64_t handle, std::uint64_t size) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    sizes_.insert_or_assign({on, handle}, size);
  } catch (const std::bad_alloc&) {
  }
}

known_mappings::taken_allocation known_mappings::freeing(context_id on,
                                                         std::uint64_t handle) noexcept {
  const std::lock_guard lock(mutex_);
  return sizes_.extract({on, handle});
}

void known_mappings::put_back(taken_allocation kept) noexcept {
  const std::lock_guard lock(mutex_);
  sizes_.insert(std::move(kept));
}

void known_mappings::mapped(context_id on, int fd, std::uint64_t handle,
                            std::uint64_t va) noexcept {
  const std::lock_guard lock(mutex_);
  const auto size = sizes_.find({on, handle});
  if (size == sizes_.end()) return;
  try {
    ranges_.insert_or_assign({on, va}, range{fd, size->second});
  } catch (const std::bad_alloc&) {
    return;
  }
  tell_mapped(fd, va, size->second);
}

known_mappings::taken_mapping known_mappings::unmapping(context_id on, int fd,
                                                        std::uint64_t va) noexcept {
  const std::lock_guard lock(mutex_);
  auto taken = ranges_.extract({on, va});
  if (!taken.empty()) tell_unmapping(fd, va);
  return taken;
}

// By number: one of them may go meanwhile.
void known_mappings::tell_unmapping(int fd, std::uint64_t va) noexcept {
  for (std::size_t i = subscribers_.size(); i-- > 0;) {
    if (i < subscribers_.size()) subscribers_[i].unmapping(subscribers_[i].context, fd, va);
  }
}

void known_mappings::put_back(taken_mapping kept) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = ranges_.insert(std::move(kept));
  if (at.inserted)
    tell_mapped(at.position->second.fd, at.position->first.second, at.position->second.len);
}

void known_mappings::closed(context_id on) noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_of_it = [on](const auto& entry) { return entry.first.first == on; };
  for (const auto& entry : ranges_)
    if (is_of_it(entry)) tell_unmapping(entry.second.fd, entry.first.second);
  std::erase_if(sizes_, is_of_it);
  std::erase_if(ranges_, is_of_it);
}

int known_mappings::subscribe(const subscriber& who) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    subscribers_.push_back(who);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  for (const auto& [where, what] : ranges_)
    who.mapped(who.context, what.fd, where.second, what.len);
  return 0;
}

void known_mappings::unsubscribe(void* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(subscribers_, [context](const subscriber& s) { return s.context == context; });
}

void known_mappings::tell_mapped(int fd, std::uint64_t va, std::uint64_t len) noexcept {
  for (std::size_t i = subscribers_.size(); i-- > 0;) {
    if (i < subscribers_.size()) subscribers_[i].mapped(subscribers_[i].context, fd, va, len);
  }
}

}  // namespace gaudi::interpose
