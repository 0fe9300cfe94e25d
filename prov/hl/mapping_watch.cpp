// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hl/mapping_watch.hpp"

#include <dlfcn.h>

#include <cerrno>

#include "base/log.hpp"

namespace gaudi::hl {
namespace {

template <class Call>
Call find(const char* name) noexcept {
  return reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
}

void tell_mapped(void* listener, int fd, std::uint64_t va, std::uint64_t len) {
  static_cast<mapping_listener*>(listener)->mapped(fd, va, len);
}

void tell_unmapping(void* listener, int fd, std::uint64_t va) {
  static_cast<mapping_listener*>(listener)->unmapping(fd, va);
}

}  // namespace

std::unique_ptr<mapping_subscription> mapping_subscription::make(mapping_listener& listener) {
  const auto subscribe = find<watch_abi::subscribe_call>(watch_abi::subscribe_name);
  const auto end = find<watch_abi::unsubscribe_call>(watch_abi::unsubscribe_name);
  if (!subscribe || !end) return nullptr;
  std::unique_ptr<mapping_subscription> made(new mapping_subscription(listener, end));
  const int ret = subscribe(watch_abi::version, &listener, tell_mapped, tell_unmapping);
  if (ret == 0) return made;
  GAUDI_WARN(CORE, "libgaudi-fi-preload.so does not tell what the application maps: %s\n",
             ret == -EINVAL ? "it is of another version than the provider" : "no memory");
  return nullptr;
}

mapping_subscription::~mapping_subscription() {
  end_(&listener_);
}

}  // namespace gaudi::hl
