// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>

#include "device/generation.hpp"
#include "fi/forward.hpp"

/// What endpoints of FI_EP_MSG move of devices' memory. The core's operations are all there is, so
/// it is told by the addresses that they are given; any thread.
namespace gaudi::fi {

/// Counts the bytes at `address` as read or written by a NIC (device::counters::zero_copy_bytes),
/// on the device that has them: not where several open ones have that address, nor none.
void note_device_bytes(std::uint64_t address, std::size_t length) noexcept;

/// The same of a buffer that is mostly host memory.
inline void note_bytes(const void* buffer, std::size_t length) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(buffer);
  if (device::may_be_device_address(address)) [[unlikely]]
    note_device_bytes(address, length);
}

/// Of the local buffers that are among the arguments of an operation of libfabric's, behind its
/// endpoint: a buffer, a vector or a message.
template <class... Others>
void note_local(const void* buffer, std::size_t length, Others...) noexcept {
  note_bytes(buffer, length);
}
template <class... Others>
void note_local(const iovec* parts, void**, std::size_t count, Others...) noexcept {
  for (std::size_t i = 0; i < count; ++i) note_bytes(parts[i].iov_base, parts[i].iov_len);
}
template <class Message>
void note_local(const Message* message, std::uint64_t) noexcept {
  note_local(message->msg_iov, message->desc, message->iov_count);
}

/// An entry of an operation table as `forward` makes it, which counts where the core took the
/// operation.
template <class Wrapper, auto Table, auto Entry>
struct forward_and_count_t {
  template <class R, class Object, class... Args>
  using function = R (*)(Object*, Args...);

  template <class R, class Object, class... Args>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator function<R, Object, Args...>() const noexcept {
    return [](Object* object, Args... args) -> R {
      constexpr function<R, Object, Args...> plain = forward<Wrapper, Table, Entry>;
      const R ret = plain(object, args...);
      if (ret == 0) note_local(args...);
      return ret;
    };
  }
};
template <class Wrapper, auto Table, auto Entry>
inline constexpr forward_and_count_t<Wrapper, Table, Entry> forward_and_count{};

}  // namespace gaudi::fi
