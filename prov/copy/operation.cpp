// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "copy/copier.hpp"
#include "device/host_page.hpp"

namespace gaudi::copy {
namespace {

using base::error;
using base::result;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Waits in pieces, so that an operation starved by others looks again for what they gave back.
constexpr int max_block_ms = 100;
constexpr std::chrono::microseconds starved_pause{50};

// Shorter copies are made the same way whatever the table says, so they do not wait for it.
constexpr std::uint64_t min_for_table = std::uint64_t{64} << 10;

/// Not host memory, whatever the caller says: a Gaudi1's address only where the host has nothing.
bool is_surely_device(const device::device& known, std::uint64_t address) {
  return device::is_device_address(address) ||
         (known.find(address, 1) && !device::has_host_page(address));
}

}  // namespace

operation::operation(passkey, std::shared_ptr<copier> owner, std::uint64_t dst, std::uint64_t src,
                     std::uint64_t len, direction dir)
    : owner_(std::move(owner)), dst_(dst), src_(src), len_(len), dir_(dir) {}

operation::~operation() {
  {
    const base::scoped_lock lock(owner_->mutex_);
    if (status_ == 0 && !ended_) status_ = -FI_ECANCELED;  // starts no further part
  }
  wait(-1);
}

std::byte* operation::host() const noexcept {
  const std::uint64_t address = dir_ == direction::host_to_device ? src_ : dst_;
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

result<void> operation::hold(unsigned side, std::uint64_t addr) {
  device::device& on = *owner_->engine()->owner();
  auto pin = on.pin(addr, len_);
  if (!pin) return error{on.lost() != 0 ? on.lost() : -FI_EINVAL};
  held_[side].emplace(*std::move(pin));
  return {};
}

result<void> operation::prepare() {
  if (len_ == 0) return {};
  if (dir_ != direction::host_to_device)
    if (const auto rc = hold(0, src_); !rc) return rc;
  if (dir_ != direction::device_to_host)
    if (const auto rc = hold(1, dst_); !rc) return rc;
  const copy_row measured = row();
  part_length_ = part_length(measured, len_);
  if (dir_ == direction::device_to_device) return {};

  const auto address = reinterpret_cast<std::uintptr_t>(host());
  if (address == 0 || is_surely_device(*owner_->engine()->owner(), address))
    return error{-FI_EINVAL};
  if (!should_pin(measured)) return {};
  // Memory that cannot be pinned, such as a read-only file mapping, goes through chunks.
  auto pin = pinned_region::map(owner_->engine()->owner(), host(), len_);
  if (pin) pinned_.emplace(*std::move(pin));
  return {};
}

copy_row operation::row() const noexcept {
  return len_ < min_for_table ? copy_row{} : owner_->engine()->table()[dir_];
}

bool operation::should_pin(const copy_row& row) const noexcept {
  // Synapse knows mappings by their host addresses alone, and the application may have some of its
  // own there.
  const bool is_synapses = owner_->engine()->owner()->synapse() != nullptr;
  return len_ >= row.pin && !is_synapses;
}

void operation::submit(part& next) {
  const bool from_host = dir_ == direction::host_to_device;
  std::uint64_t dst = dst_ + next.offset;
  std::uint64_t src = src_ + next.offset;
  if (dir_ != direction::device_to_device) {
    const std::uint64_t staged =
        next.chunk != nullptr ? next.chunk->device_va : pinned_->device_va() + next.offset;
    (from_host ? src : dst) = staged;
  }
  const auto copy = owner_->submit(dst, src, next.len, dir_);
  if (!copy) {
    if (copy.code() != -FI_EAGAIN) status_ = copy.code();
    return;
  }
  next.copy = *copy;
  next.busy = true;
  next_ += next.len;
}

void operation::feed(part& idle) {
  idle.offset = next_;
  idle.len = len_ - next_;
  if (dir_ == direction::device_to_device || pinned_) {
    idle.len = std::min(idle.len, part_length_);
    return submit(idle);
  }

  if (idle.chunk == nullptr) idle.chunk = owner_->chunks_.acquire();
  if (idle.chunk == nullptr) return;
  idle.len = std::min<std::uint64_t>(idle.len, idle.chunk->size);
  if (dir_ == direction::host_to_device)
    std::memcpy(idle.chunk->host, host() + idle.offset, idle.len);
  submit(idle);
}

void operation::take_result(part& ended, int rc) {
  ended.busy = false;
  if (rc == 0 && status_ == 0 && ended.chunk != nullptr && dir_ == direction::device_to_host)
    std::memcpy(host() + ended.offset, ended.chunk->host, ended.len);
  if (rc != 0 && status_ == 0) status_ = rc;
}

void operation::release_all() {
  for (part& each : parts_)
    if (each.chunk != nullptr) owner_->chunks_.release(std::exchange(each.chunk, nullptr));
  pinned_.reset();
  held_[0].reset();
  held_[1].reset();
  std::erase(owner_->active_, this);
  ended_ = true;
}

/// Advances as far as it goes without waiting: 0 ended, -FI_EAGAIN parts are in flight,
/// -FI_EBUSY nothing is, for want of a chunk or an engine slot.
int operation::step() {
  if (ended_) return 0;
  bool busy = false;
  for (part& each : parts_) {
    if (each.busy && !each.awaited) {
      const int rc = owner_->engine()->poll(each.copy);
      if (rc != -FI_EAGAIN) take_result(each, rc);
    }
    if (!each.busy && status_ == 0 && next_ < len_) feed(each);
    busy |= each.busy;
  }
  if (busy) return -FI_EAGAIN;
  if (status_ == 0 && next_ < len_) return -FI_EBUSY;
  release_all();
  return 0;
}

int operation::poll() {
  const base::scoped_lock lock(owner_->mutex_);
  const int rc = step();
  if (rc == -FI_EBUSY) owner_->step_all();
  return ended_ ? status_ : -FI_EAGAIN;
}

operation::part* operation::oldest_busy() {
  part* oldest = nullptr;
  for (part& each : parts_)
    if (each.busy && (oldest == nullptr || each.offset < oldest->offset)) oldest = &each;
  return oldest;
}

void operation::block(int timeout_ms) {
  part* awaited = nullptr;
  {
    const base::scoped_lock lock(owner_->mutex_);
    awaited = oldest_busy();
    if (awaited != nullptr) awaited->awaited = true;
  }
  if (awaited == nullptr) {
    std::this_thread::sleep_for(starved_pause);
    return;
  }
  const int rc = owner_->engine()->wait(awaited->copy, std::min(timeout_ms, max_block_ms));
  const base::scoped_lock lock(owner_->mutex_);
  awaited->awaited = false;
  if (rc != -FI_ETIMEDOUT) take_result(*awaited, rc);
}

int operation::wait(int timeout_ms) {
  const auto deadline = steady_clock::now() + milliseconds{timeout_ms};
  for (;;) {
    const int rc = poll();
    if (rc != -FI_EAGAIN) return rc;
    const auto now = steady_clock::now();
    if (timeout_ms >= 0 && now >= deadline) return -FI_ETIMEDOUT;
    block(timeout_ms < 0
              ? max_block_ms
              : static_cast<int>(std::chrono::ceil<milliseconds>(deadline - now).count()));
  }
}

}  // namespace gaudi::copy
