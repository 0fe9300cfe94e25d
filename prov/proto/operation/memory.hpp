// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/uio.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "device/device_registry.hpp"
#include "proto/wire/wire.hpp"
#include "reg/other_nic.hpp"
#include "reg/region.hpp"

namespace gaudi::proto {

/// A contiguous part of an operation's local memory. Where it is not the host's, `address` is a
/// device address and is never touched by the CPU.
struct local_segment {
  // No initial values: most operations use one of four segments.
  std::uint64_t address;
  std::size_t length;
  const reg::region* registered;  // as the application gave it, or null
  device::device* owner;

  /// A CPU can touch it. What is neither this nor on a device of ours only the NIC reaches.
  [[nodiscard]] bool is_host() const noexcept {
    return !owner && !(registered && registered->imported);
  }
  [[nodiscard]] std::byte* host() const noexcept { return reinterpret_cast<std::byte*>(address); }
  /// What the core wants with it; null: it does not know the memory.
  [[nodiscard]] void* core_descriptor() const noexcept {
    const core::inner_mr* known = registered ? registered->core_for(0) : nullptr;
    return known ? known->descriptor() : nullptr;
  }
  /// The same at another NIC, of registered memory. Null: that does not take it, or there is no
  /// memory.
  [[nodiscard]] void* descriptor_at(reg::other_nic& nic) const noexcept;
};

/// Who knows the devices that an operation's memory may be on: what the operation is of.
template <class T>
concept has_devices = requires(T& owner) {
  { owner.devices() } -> std::same_as<device::device_registry&>;
};

/// The local memory of one operation: what an iov and its descriptors say, checked once.
class local_memory {
 public:
  static constexpr std::size_t max_segments = wire::max_segments;

  local_memory() = default;
  // Nearly all operations use one of the four segments, and each is copied on its way several
  // times.
  local_memory(const local_memory& other) noexcept { take(other); }
  local_memory& operator=(const local_memory& other) noexcept {
    take(other);
    return *this;
  }

  /// `owner`.devices() are those whose addresses need no descriptor; it is not asked for them where
  /// there is one, or host memory. -FI_EINVAL: too many segments, a device range outside its
  /// region, or a device address that no allocation known there holds.
  template <has_devices Owner>
  static base::result<local_memory> from(const iovec* iov, void* const* descriptors,
                                         std::size_t count, Owner& owner) noexcept {
    if (count != 1) return from_several_of_owner(iov, descriptors, count, owner);
    return from(iov->iov_base, iov->iov_len, descriptors ? *descriptors : nullptr, owner);
  }

  /// One part, which is as it shall be.
  static local_memory of(const local_segment& s) noexcept {
    local_memory m;
    m.segments_[0] = s;
    m.count_ = 1;
    m.length_ = s.length;
    m.device_ = !s.is_host();
    return m;
  }

  /// The common case, made in its place.
  template <has_devices Owner>
  static base::result<local_memory> from(const void* buffer, std::size_t length, void* descriptor,
                                         Owner& owner) noexcept {
    base::result<local_memory> made = local_memory();
    if (const int ret = made->add(buffer, length, descriptor, owner)) made = base::error{ret};
    return made;
  }

  /// Memory that is known to be the host's, and not registered.
  static local_memory of_host(const void* buffer, std::size_t length) noexcept {
    local_memory m;
    m.add_host(reinterpret_cast<std::uint64_t>(buffer), length, nullptr);
    return m;
  }

  /// A part of a region, for a peer's request.
  static local_memory inside(const reg::region& r, std::uint64_t address,
                             std::size_t length) noexcept;

  [[nodiscard]] std::size_t length() const noexcept { return length_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] const local_segment& operator[](std::size_t i) const noexcept {
    return segments_[i];
  }
  [[nodiscard]] bool on_device() const noexcept { return device_; }
  /// Whether all of it is device memory.
  [[nodiscard]] bool only_on_device() const noexcept;
  /// FI_EIO or FI_ENODEV where any of it is in the memory of a device that is lost, else 0.
  [[nodiscard]] int loss() const noexcept { return device_ ? loss_of_device() : 0; }
  /// Whether the core can let a peer do `remote` (FI_REMOTE_READ, FI_REMOTE_WRITE, or 0: only we)
  /// to all that is in device memory. Host memory can always be registered.
  [[nodiscard]] bool core_reaches(std::uint64_t remote) const noexcept;
  /// The first byte when all is one host buffer, else nullptr.
  [[nodiscard]] std::byte* single_host() const noexcept {
    return count_ == 1 && !device_ ? segments_[0].host() : nullptr;
  }

  /// The segment that holds byte `offset` (< length()), and the byte's place in it.
  struct place {
    const local_segment* segment;
    std::size_t within;
    [[nodiscard]] std::uint64_t address() const noexcept { return segment->address + within; }
    [[nodiscard]] std::size_t left() const noexcept { return segment->length - within; }
  };
  [[nodiscard]] place at(std::size_t offset) const noexcept;

  /// Copies between this (host segments only) and `bytes`, starting at `offset`.
  void read(std::size_t offset, std::byte* bytes, std::size_t length) const noexcept;
  void write(std::size_t offset, const std::byte* bytes, std::size_t length) const noexcept;

  /// Segment `i` was not registered and is now, by a region that outlives this and all copies.
  void set_registered(std::size_t i, const reg::region& r) noexcept {
    segments_[i].registered = &r;
  }

  /// Drops the first `length` bytes, or all. Only for a single segment.
  void skip(std::size_t length) noexcept {
    length_ -= length < length_ ? length : length_;
    segments_[0].address += segments_[0].length - length_;
    segments_[0].length = length_;
  }

  /// The `length` bytes from `offset` on, both within it; `length` is not 0.
  [[nodiscard]] local_memory part(std::size_t offset, std::size_t length) const noexcept;

  /// Cuts the memory to its first `length` bytes.
  void truncate(std::size_t length) noexcept;

 private:
  template <has_devices Owner>
  int add(const void* buffer, std::size_t length, void* descriptor, Owner& owner) noexcept {
    const auto address = reinterpret_cast<std::uint64_t>(buffer);
    const auto* registered = static_cast<const reg::region*>(descriptor);
    // Almost always: host memory. Everything else is out of line.
    if ((registered && registered->on_device()) || device::is_device_address(address))
      return add_of_owner(address, length, registered, owner);
    add_host(address, length, registered);
    return 0;
  }
  void add_host(std::uint64_t address, std::size_t length, const reg::region* registered) noexcept {
    segments_[count_++] = {address, length, registered, nullptr};
    length_ += length;
  }
  static base::result<local_memory> from_several(const iovec* iov, void* const* descriptors,
                                                 std::size_t count,
                                                 device::device_registry& devices) noexcept;
  // Not inlined: asking for devices would cost registers where none are asked for.
  template <has_devices Owner>
  [[gnu::noinline]] static base::result<local_memory> from_several_of_owner(
      const iovec* iov, void* const* descriptors, std::size_t count, Owner& owner) noexcept {
    return from_several(iov, descriptors, count, owner.devices());
  }
  template <has_devices Owner>
  [[gnu::noinline]] int add_of_owner(std::uint64_t address, std::size_t length,
                                     const reg::region* registered, Owner& owner) noexcept {
    return add_checked(address, length, registered, owner.devices());
  }
  int add_checked(std::uint64_t address, std::size_t length, const reg::region* registered,
                  device::device_registry& devices) noexcept;

  [[nodiscard]] int loss_of_device() const noexcept;

  void take(const local_memory& other) noexcept {
    length_ = other.length_;
    count_ = other.count_;
    device_ = other.device_;
    if (count_ != 0) segments_[0] = other.segments_[0];
    if (count_ > 1) [[unlikely]]
      take_all_segments(other);
  }
  void take_all_segments(const local_memory& other) noexcept;

  std::array<local_segment, max_segments> segments_;
  std::size_t length_ = 0;
  std::uint8_t count_ = 0;
  bool device_ = false;
};

}  // namespace gaudi::proto
