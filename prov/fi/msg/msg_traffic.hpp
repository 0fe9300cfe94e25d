// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>

#include "device/device_registry.hpp"
#include "device/generation.hpp"
#include "fi/common/forward.hpp"

/// What endpoints of FI_EP_MSG move of devices' memory. The core's operations are all there is, so
/// it is told by the addresses that they are given; any thread.
namespace gaudi::fi {

/// Counts the bytes at `address` as read or written by a NIC (device::counters::zero_copy_bytes),
/// on the device that has them: not where several open ones have that address, nor none.
void note_device_bytes(const device::device_registry& devices, std::uint64_t address,
                       std::size_t length) noexcept;

/// Calls call(address, length) for each local buffer that may be a device's, of those among the
/// arguments of an operation of libfabric's, behind its endpoint: a buffer, a vector or a message.
template <class Call, class... Others>
void for_device_buffers(Call&& call, const void* buffer, std::size_t length, Others...) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(buffer);
  if (device::may_be_device_address(address)) [[unlikely]]
    call(address, length);
}
template <class Call, class... Others>
void for_device_buffers(Call&& call, const iovec* parts, void**, std::size_t count,
                        Others...) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    for_device_buffers(call, parts[i].iov_base, parts[i].iov_len);
}
template <class Call, class Message>
void for_device_buffers(Call&& call, const Message* message, std::uint64_t) noexcept {
  for_device_buffers(call, message->msg_iov, message->desc, message->iov_count);
}

/// An entry of an operation table as `forward` makes it, which counts where the core took the
/// operation. One of host memory ends in the core's call: nothing of it is kept for later.
template <class Wrapper, auto Table, auto Entry>
struct forward_and_count_t {
  template <class R, class Object, class... Args>
  using function = R (*)(Object*, Args...);
  template <class R, class Object, class... Args>
  static constexpr function<R, Object, Args...> plain = forward<Wrapper, Table, Entry>;

  template <class R, class Object, class... Args>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator function<R, Object, Args...>() const noexcept {
    return [](Object* object, Args... args) -> R {
      bool may_be_devices = false;
      for_device_buffers([&](auto, auto) { may_be_devices = true; }, args...);
      if (may_be_devices) [[unlikely]]
        return counted<R>(object, args...);
      return plain<R, Object, Args...>(object, args...);
    };
  }

 private:
  template <class R, class Object, class... Args>
  [[gnu::noinline]] static R counted(Object* object, Args... args) {
    const R ret = plain<R, Object, Args...>(object, args...);
    if (ret != 0) return ret;
    const auto& devices = Wrapper::of(object).devices();
    for_device_buffers([&](std::uint64_t address,
                           std::size_t length) { note_device_bytes(devices, address, length); },
                       args...);
    return ret;
  }
};
template <class Wrapper, auto Table, auto Entry>
inline constexpr forward_and_count_t<Wrapper, Table, Entry> forward_and_count{};

}  // namespace gaudi::fi
