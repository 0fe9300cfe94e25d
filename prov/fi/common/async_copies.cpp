// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/async_copies.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace gaudi::fi {

base::result<std::shared_ptr<copy::copier>> async_copies::copier(
    const std::shared_ptr<device::device>& owner) {
  const base::scoped_lock lock(mutex_);
  std::erase_if(copiers_, [](const auto& c) { return c->engine()->owner()->lost() != 0; });
  for (const auto& known : copiers_) {
    if (known->engine()->owner() == owner) return known;
  }
  auto made = copy::copier::for_device(owner, copy::engine_config::of(params_));
  if (made) copiers_.push_back(*made);
  return made;
}

std::uint64_t async_copies::add(std::unique_ptr<copy::operation> started) {
  auto added = std::make_shared<entry>(std::move(started));
  const base::scoped_lock lock(mutex_);
  entries_.emplace(next_, std::move(added));
  return next_++;
}

int async_copies::check(std::uint64_t ticket, int timeout_ms) {
  std::shared_ptr<entry> e;
  {
    const base::scoped_lock lock(mutex_);
    const auto found = entries_.find(ticket);
    if (found == entries_.end()) return -FI_EINVAL;
    e = found->second;
  }
  const base::scoped_lock busy(e->busy);
  const int ret = !e->copy ? 0 : timeout_ms == 0 ? e->copy->poll() : e->copy->wait(timeout_ms);
  if (ret == -FI_EAGAIN || ret == -FI_ETIMEDOUT) return ret;
  const base::scoped_lock lock(mutex_);
  entries_.erase(ticket);
  return ret;
}

}  // namespace gaudi::fi
