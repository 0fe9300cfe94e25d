// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>

namespace gaudi::hl {

/// Who hears what the application maps and unmaps with libhl-thunk itself. Called by the thread
/// that does so, for one change at a time.
class mapping_listener {
 public:
  virtual ~mapping_listener() = default;

  /// `len` bytes of device memory at `va` were mapped through `fd`.
  virtual void mapped(int fd, std::uint64_t va, std::uint64_t len) noexcept = 0;
  /// What is mapped at `va` is about to be unmapped: what was made of it must have ended on return.
  virtual void unmapping(int fd, std::uint64_t va) noexcept = 0;

 protected:
  mapping_listener() = default;
  mapping_listener(const mapping_listener&) = default;
  mapping_listener& operator=(const mapping_listener&) = default;
};

/// The functions of libgaudi-fi-preload.so, which the user preloads (man page fi_gaudi(7)). C
/// linkage: the library and the provider need not be of one build, as long as `abi` agrees.
struct watch_abi {
  static constexpr std::uint32_t version = 1;
  using mapped_call = void (*)(void* context, int fd, std::uint64_t va, std::uint64_t len);
  using unmapping_call = void (*)(void* context, int fd, std::uint64_t va);
  /// Tells of all that is mapped now, then of each change until unsubscribe(context). 0; or a
  /// negative errno: -EINVAL another abi, -ENOMEM.
  using subscribe_call = int (*)(std::uint32_t abi, void* context, mapped_call, unmapping_call);
  using unsubscribe_call = void (*)(void* context);
  static constexpr const char* subscribe_name = "gaudi_fi_preload_subscribe";
  static constexpr const char* unsubscribe_name = "gaudi_fi_preload_unsubscribe";
};

/// A listener's subscription, for as long as this lives; on its end the listener is not being told,
/// nor will be (but by the thread that ends it out of a call). The caller of both holds no lock
/// that the listener takes.
class mapping_subscription {
 public:
  /// Null where the library was not preloaded: nobody tells.
  static std::unique_ptr<mapping_subscription> make(mapping_listener& listener);
  ~mapping_subscription();
  mapping_subscription(const mapping_subscription&) = delete;
  mapping_subscription& operator=(const mapping_subscription&) = delete;

 private:
  mapping_subscription(mapping_listener& listener, watch_abi::unsubscribe_call end) noexcept
      : listener_(listener), end_(end) {}

  mapping_listener& listener_;
  const watch_abi::unsubscribe_call end_;
};

}  // namespace gaudi::hl
