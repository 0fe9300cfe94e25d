// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "common/pieces.hpp"

namespace gaudi::perf {
namespace {

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void require_copy(int ret, std::string_view call) {
  if (ret == -FI_EOPNOTSUPP)
    throw failure(fmt::format(
        "{}: this Gaudi offers no copies through libhl-thunk, so its bytes cannot be set "
        "and verified; run on an RDMA NIC that reaches its memory, or without --check",
        call));
  require(ret, call);
}

}  // namespace

bool can_copy(endpoint& ep) {
  const common::device_memory one(ep.domain(), ep.device_ops(), 1);
  const std::byte nothing{};
  const int ret = ep.device_ops().copy(ep.domain(), one.address(), address_of(&nothing), 1,
                                       FI_GAUDI_HOST_TO_DEVICE);
  if (ret != -FI_EOPNOTSUPP) require(ret, "copying to the device");
  return ret == 0;
}

buffer::buffer(endpoint& ep, memory_kind kind, std::size_t size) : ep_(ep) {
  if (kind == memory_kind::device) {
    device_ = std::make_unique<common::device_memory>(ep.domain(), ep.device_ops(), size);
    base_ = device_->address();
    scratch_.resize(std::min(size, common::piece_size));
    for (std::size_t done = 0; can_copy(ep) && done < size; done += scratch_.size())
      copy_to_device(done, std::span(scratch_).first(std::min(scratch_.size(), size - done)));
  } else {
    host_.resize(size);
    base_ = address_of(host_.data());
  }
  mr_ = common::register_memory(ep.domain(), base_, size, kind == memory_kind::device);
}

local_memory buffer::local(std::size_t offset) const {
  return {reinterpret_cast<void*>(base_ + offset), fi_mr_desc(mr_.get())};
}

remote_memory buffer::remote() const {
  const bool by_address = (ep_.info().domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return {by_address ? base_ : 0, fi_mr_key(mr_.get())};
}

void buffer::fill(const common::pattern& bytes, std::size_t offset, std::size_t size) {
  if (!device_) {
    bytes.fill(std::span(host_).subspan(offset, size), 0);
    return;
  }
  common::fill_in_pieces(bytes, size, scratch_, [&](std::size_t done, auto piece) {
    copy_to_device(offset + done, piece);
  });
}

std::optional<std::size_t> buffer::find_difference(const common::pattern& bytes, std::size_t offset,
                                                   std::size_t size) const {
  if (!device_) return bytes.find_difference(std::span(host_).subspan(offset, size), 0);
  return common::find_difference_in_pieces(
      bytes, size, scratch_,
      [&](std::size_t done, auto piece) { copy_from_device(offset + done, piece); });
}

void buffer::copy_to_device(std::size_t offset, std::span<const std::byte> from) const {
  require_copy(ep_.device_ops().copy(ep_.domain(), base_ + offset, address_of(from.data()),
                                     from.size(), FI_GAUDI_HOST_TO_DEVICE),
               "copying to the device");
}

void buffer::copy_from_device(std::size_t offset, std::span<std::byte> to) const {
  require_copy(ep_.device_ops().copy(ep_.domain(), address_of(to.data()), base_ + offset, to.size(),
                                     FI_GAUDI_DEVICE_TO_HOST),
               "copying from the device");
}

}  // namespace gaudi::perf
