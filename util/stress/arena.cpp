// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "arena.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <string>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// Each worker has a Gaudi of its own, as no two processes can open one.
void select_gaudi(fid_domain* domain, const fi_gaudi_ops& ops, int number) {
  int count = 0;
  common::require(ops.device_count(domain, &count), "counting Gaudis");
  if (number >= count)
    throw common::failure("there is no Gaudi for it: FI_GAUDI_DEVICE and this machine offer " +
                          std::to_string(count) + ", and each worker needs its own; " +
                          "with --memory mixed the others do without");
  common::require(ops.select_device(domain, number),
                  "choosing Gaudi number " + std::to_string(number));
}

}  // namespace

arena::arena(const endpoint& ep, memory_kind kind, std::size_t size, int device)
    : domain_(ep.domain()),
      by_address_((ep.info().domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0),
      size_(size),
      number_(device) {
  if (kind == memory_kind::device) {
    ops_ = common::find_device_ops(domain_);
    if (ops_ == nullptr) throw common::failure("this provider has no operations on Gaudi memory");
    select_gaudi(domain_, *ops_, number_);
    device_ = std::make_unique<common::device_memory>(domain_, *ops_, size);
    base_ = device_->address();
  } else {
    host_.resize(size);
    base_ = address_of(host_.data());
  }
  register_all();
}

void arena::register_all() {
  mr_ = common::register_memory(domain_, base_, size_, device_ != nullptr, number_);
  remote_ = {by_address_ ? base_ : 0, fi_mr_key(mr_.get())};
}

void arena::renew() {
  mr_.reset();
  register_all();
}

local_memory arena::local(const place& at) const {
  return {reinterpret_cast<void*>(base_ + at.offset), fi_mr_desc(mr_.get())};
}

void arena::store(std::span<const std::byte> bytes) {
  if (!device_) {
    std::copy(bytes.begin(), bytes.end(), host_.begin());
    return;
  }
  common::require(
      ops_->copy(domain_, base_, address_of(bytes.data()), bytes.size(), FI_GAUDI_HOST_TO_DEVICE),
      "copying to the device");
}

std::vector<std::byte> arena::load(std::size_t size) const {
  if (!device_) return {host_.begin(), host_.begin() + static_cast<std::ptrdiff_t>(size)};
  std::vector<std::byte> bytes(size);
  common::require(copy_from_device(bytes), "copying from the device");
  return bytes;
}

bool arena::is_lost() const {
  std::array<std::byte, 8> some{};
  const int ret = device_ ? copy_from_device(some) : 0;
  return ret == -FI_EIO || ret == -FI_ENODEV;
}

int arena::copy_from_device(std::span<std::byte> to) const {
  return ops_->copy(domain_, address_of(to.data()), base_, to.size(), FI_GAUDI_DEVICE_TO_HOST);
}

}  // namespace gaudi::stress
