// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "bus_id.hpp"
#include "context.hpp"
#include "hlsim.hpp"
#include "settings.hpp"

// hlthunk_open and its relatives. Error forms: reference, section 1.4.

namespace hlsim {
namespace {

bool matches(hlthunk_device_name name) noexcept {
  return name == configured_model().name || name == HLTHUNK_DEVICE_DONT_CARE;
}

/// The failure is left in errno as well, as a failed system call leaves it.
int with_errno(int rc) noexcept {
  if (rc < 0) errno = -rc;
  return rc;
}

/// Walks the devices; -1 with the cause in errno when none opens.
template <class Open>
int open_first(hlthunk_device_name name, Open open_one) {
  int cause = ENOENT;
  for (uint32_t i = 0; matches(name) && i < current_settings().devices; ++i) {
    const int fd = open_one(i);
    if (fd >= 0) return fd;
    cause = -fd;
  }
  errno = cause;
  return -1;
}

template <class Open>
int open_by_bus_id(const char* bus_id, int unknown, Open open_one) {
  const std::optional<uint32_t> index = index_of_bus_id(bus_id);
  return with_errno(index ? open_one(*index) : unknown);
}

template <class Open>
int open_by_module(uint32_t module, Open open_one) {
  return with_errno(module < current_settings().devices ? open_one(module) : -EBADF);
}

}  // namespace
}  // namespace hlsim

using namespace hlsim;

int hlthunk_open(hlthunk_device_name name, const char* bus_id) {
  return bus_id ? open_by_bus_id(bus_id, -EINVAL, open_device) : open_first(name, open_device);
}

int hlthunk_open_by_module_id(uint32_t module_id) {
  return open_by_module(module_id, open_device);
}

int hlthunk_open_control(int index, const char* bus_id) {
  if (bus_id) return open_by_bus_id(bus_id, -EINVAL, open_control_node);
  const bool exists = index >= 0 && static_cast<uint32_t>(index) < current_settings().devices;
  return with_errno(exists ? open_control_node(static_cast<uint32_t>(index)) : -ENOENT);
}

int hlthunk_open_control_by_name(hlthunk_device_name name, const char* bus_id) {
  return bus_id ? open_by_bus_id(bus_id, -EINVAL, open_control_node)
                : open_first(name, open_control_node);
}

int hlthunk_open_control_by_module_id(uint32_t module_id) {
  return open_by_module(module_id, open_control_node);
}

int hlthunk_open_control_by_bus_id(const char* bus_id) {
  return bus_id ? open_by_bus_id(bus_id, -EBADF, open_control_node) : with_errno(-EINVAL);
}

int hlthunk_close(int fd) {
  return with_errno(close_device(fd)) == 0 ? 0 : -1;
}

int hlthunk_get_device_index_from_pci_bus_id(const char* bus_id) {
  const std::optional<uint32_t> index = bus_id ? index_of_bus_id(bus_id) : std::nullopt;
  return index ? static_cast<int>(*index) : with_errno(-EINVAL);
}

int hlthunk_get_device_count(hlthunk_device_name name) {
  return matches(name) ? static_cast<int>(current_settings().devices) : 0;
}
