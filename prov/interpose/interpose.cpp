// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// libgaudi-fi-preload.so: preloaded (LD_PRELOAD), it stands before libhl-thunk and tells the
// provider what the application maps and unmaps. The functions are hl-thunk's
// (prov/docs/device.md, 1.3). A call goes on to the next library that has it; nothing is patched.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "hl/mapping_watch.hpp"
#include "interpose/known_mappings.hpp"

namespace gaudi::interpose {
namespace {

template <class Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int not_there() noexcept {
  errno = ENOSYS;
  return -1;
}

/// All descriptors of one open device; duplicates count as the same.
context_id context_of(int fd) noexcept {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return {};
  return {facts.st_dev, facts.st_ino};
}

}  // namespace
}  // namespace gaudi::interpose

using gaudi::interpose::context_of;
using gaudi::interpose::known_mappings;
using gaudi::interpose::next;
using gaudi::interpose::not_there;

#define GAUDI_EXPORT extern "C" __attribute__((visibility("default")))

GAUDI_EXPORT std::uint64_t hlthunk_device_memory_alloc(int fd, std::uint64_t size,
                                                       std::uint64_t page_size, bool contiguous,
                                                       bool shared) {
  static const auto call =
      next<std::uint64_t(int, std::uint64_t, std::uint64_t, bool, bool)>(__func__);
  if (!call) return not_there(), 0;
  const std::uint64_t handle = call(fd, size, page_size, contiguous, shared);
  if (handle != 0) known_mappings::instance().allocated(context_of(fd), handle, size);
  return handle;
}

GAUDI_EXPORT int hlthunk_device_memory_free(int fd, std::uint64_t handle) {
  static const auto call = next<int(int, std::uint64_t)>(__func__);
  if (!call) return not_there();
  auto& all = known_mappings::instance();
  auto taken = all.freeing(context_of(fd), handle);
  const int ret = call(fd, handle);
  if (ret != 0 && !taken.empty()) all.put_back(std::move(taken));
  return ret;
}

GAUDI_EXPORT std::uint64_t hlthunk_device_memory_map(int fd, std::uint64_t handle,
                                                     std::uint64_t hint) {
  static const auto call = next<std::uint64_t(int, std::uint64_t, std::uint64_t)>(__func__);
  if (!call) return not_there(), 0;
  const std::uint64_t va = call(fd, handle, hint);
  if (va != 0) known_mappings::instance().mapped(context_of(fd), fd, handle, va);
  return va;
}

// Of host memory, too: an address that is not known is nobody's concern.
GAUDI_EXPORT int hlthunk_memory_unmap(int fd, std::uint64_t va) {
  static const auto call = next<int(int, std::uint64_t)>(__func__);
  if (!call) return not_there();
  auto& all = known_mappings::instance();
  auto taken = all.unmapping(context_of(fd), fd, va);
  const int ret = call(fd, va);
  if (ret != 0 && !taken.empty()) all.put_back(std::move(taken));
  return ret;
}

// The device is closed with the last of its descriptors: what is kept of it must not be told to who
// opens it next.
GAUDI_EXPORT int hlthunk_close(int fd) {
  static const auto call = next<int(int)>(__func__);
  if (!call) return not_there();
  known_mappings::instance().closed(context_of(fd));
  return call(fd);
}

GAUDI_EXPORT int gaudi_fi_preload_subscribe(std::uint32_t abi, void* context,
                                            gaudi::hl::watch_abi::mapped_call mapped,
                                            gaudi::hl::watch_abi::unmapping_call unmapping) {
  if (abi != gaudi::hl::watch_abi::version) return -EINVAL;
  return known_mappings::instance().subscribe({context, mapped, unmapping});
}

GAUDI_EXPORT void gaudi_fi_preload_unsubscribe(void* context) {
  known_mappings::instance().unsubscribe(context);
}
