// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/import_cache.hpp"

#include <rdma/fi_errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace gaudi::reg {

import_cache::handle import_cache::find(const import_key& name) {
  const auto known = by_name_.find(name);
  if (known == by_name_.end()) return nullptr;
  by_use_.splice(by_use_.end(), by_use_, known->second);
  return known->second->memory;
}

base::result<import_cache::handle> import_cache::add(const import_key& name,
                                                     const core::dmabuf_range& sent) {
  struct stat s {};
  if (::fstat(sent.fd, &s) != 0) return base::error{-errno};
  const file_identity file{s.st_dev, s.st_ino};
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    if (known->second->file == file) return find(name);
    end(known->second);
  }
  auto mr = register_with_room(sent);
  if (!mr) return mr.failure();
  handle memory = std::make_shared<const imported>(
      imported{.mr = *std::move(mr), .first = sent.base_addr + sent.offset, .length = sent.length});
  if (limits_.count == 0 || memory->length > limits_.bytes) return memory;
  entries added;
  added.push_back({name, file, memory});
  by_name_.emplace(name, added.begin());
  by_use_.splice(by_use_.end(), added);
  bytes_ += memory->length;
  while (over_limits() && evict_oldest()) {
  }
  return memory;
}

base::result<core::inner_mr> import_cache::register_with_room(const core::dmabuf_range& sent) {
  for (;;) {
    auto mr = core_.register_dmabuf(sent, FI_REMOTE_READ);
    if (mr || mr.code() != -FI_ENOMEM || !evict_oldest()) return mr;
  }
}

// False: all are in use. One that was just added has its user.
bool import_cache::evict_oldest() noexcept {
  const auto idle = std::find_if(by_use_.begin(), by_use_.end(),
                                 [](const entry& e) { return e.memory.use_count() == 1; });
  if (idle == by_use_.end()) return false;
  end(idle);
  return true;
}

void import_cache::end(entries::iterator one) noexcept {
  bytes_ -= one->memory->length;
  by_name_.erase(one->name);
  by_use_.erase(one);
}

void import_cache::forget(const import_key& name) noexcept {
  if (const auto known = by_name_.find(name); known != by_name_.end()) end(known->second);
}

void import_cache::forget_peer(std::uint64_t peer) noexcept {
  auto at = by_name_.lower_bound({peer, 0});
  while (at != by_name_.end() && at->first.peer == peer) end((at++)->second);
}

void import_cache::clear() noexcept {
  by_name_.clear();
  by_use_.clear();
  bytes_ = 0;
}

bool import_cache::over_limits() const noexcept {
  return by_name_.size() > limits_.count || bytes_ > limits_.bytes;
}

}  // namespace gaudi::reg
