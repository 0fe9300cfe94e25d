// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory.hpp"

#include <algorithm>
#include <array>

#include "common/pieces.hpp"
#include "failure.hpp"

namespace gaudi::perf {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

// Keys are ours to choose where the provider does not; each region needs one of its own.
std::uint64_t next_key() {
  static std::uint64_t key = 0x6701;
  return key++;
}

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void require_copy(int ret, std::string_view call) {
  if (ret == -FI_EOPNOTSUPP)
    throw failure(fmt::format(
        "{}: this Gaudi offers no copies through libhl-thunk, so its bytes cannot be set "
        "and verified; run without --check, on an RDMA NIC that reaches its memory",
        call));
  require(ret, call);
}

}  // namespace

device_memory::device_memory(endpoint& ep, std::size_t size) : ep_(ep) {
  require(ep.device_ops().alloc(ep.domain(), size, &address_),
          fmt::format("allocating {} bytes of device memory", size));
}

device_memory::~device_memory() {
  ep_.device_ops().free(ep_.domain(), address_);
}

bool can_copy(endpoint& ep) {
  const device_memory one(ep, 1);
  const std::byte nothing{};
  const int ret = ep.device_ops().copy(ep.domain(), one.address(), address_of(&nothing), 1,
                                       FI_GAUDI_HOST_TO_DEVICE);
  if (ret != -FI_EOPNOTSUPP) require(ret, "copying to the device");
  return ret == 0;
}

buffer::buffer(endpoint& ep, memory_kind kind, std::size_t size) : ep_(ep) {
  if (kind == memory_kind::device) {
    device_ = std::make_unique<device_memory>(ep, size);
    base_ = device_->address();
    scratch_.resize(std::min(size, common::piece_size));
    for (std::size_t done = 0; can_copy(ep) && done < size; done += scratch_.size())
      copy_to_device(done, std::span(scratch_).first(std::min(scratch_.size(), size - done)));
  } else {
    host_.resize(size);
    base_ = address_of(host_.data());
  }
  register_memory(kind, size);
}

void buffer::register_memory(memory_kind kind, std::size_t size) {
  const iovec range{reinterpret_cast<void*>(base_), size};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } request{};
  request.attr.mr_iov = &range;
  request.attr.iov_count = 1;
  request.attr.access = all_access;
  request.attr.requested_key = next_key();
  request.attr.iface = kind == memory_kind::device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  fid_mr* mr = nullptr;
  require(fi_mr_regattr(ep_.domain(), &request.attr, 0, &mr),
          fmt::format("registering {} bytes of {} memory", size, name_of(kind)));
  mr_.reset(mr);
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
