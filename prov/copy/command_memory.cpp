// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/command_memory.hpp"

#include <utility>

namespace gaudi::copy {

using base::result;

result<command_memory> command_memory::make(const std::shared_ptr<device::device>& owner,
                                            unsigned count, std::uint32_t len) {
  command_memory made;
  made.buffers_.reserve(count);
  const auto rc = owner->generation().kernel_commands ? made.request(owner, count, len)
                                                      : made.pin(owner, count, len);
  if (!rc) return rc.failure();
  return made;
}

result<void> command_memory::pin(const std::shared_ptr<device::device>& owner, unsigned count,
                                 std::uint32_t len) {
  auto pages = host_pages::allocate(std::size_t{count} * len);
  if (!pages) return pages.failure();
  pages_.emplace(*std::move(pages));
  auto pinned = pinned_region::map(owner, pages_->data(), pages_->len());
  if (!pinned) return pinned.failure();
  pinned_.emplace(*std::move(pinned));
  for (std::size_t at = 0; at < std::size_t{count} * len; at += len)
    buffers_.push_back({pinned_->host() + at, pinned_->device_va() + at});
  return {};
}

result<void> command_memory::request(const std::shared_ptr<device::device>& owner, unsigned count,
                                     std::uint32_t len) {
  requested_.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    auto one = kernel_commands::request(owner, len);
    if (!one) return one.failure();
    buffers_.push_back({one->data(), one->handle()});
    requested_.push_back(*std::move(one));
  }
  return {};
}

}  // namespace gaudi::copy
