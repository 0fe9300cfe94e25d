// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hl/synapse.hpp"

#include <rdma/fi_errno.h>

namespace gaudi::hl {
namespace {

using base::error;
using base::result;

// Synapse's number of the device, which it does not look at: there is one.
constexpr std::uint32_t the_device = 0;

constexpr int busy = 22;

/// The cause of a synStatus other than success.
int code_of(int status) noexcept {
  switch (status) {
    case 1:  // invalid argument
      return -FI_EINVAL;
    case 3:   // no host memory
    case 4:   // no device memory
    case 23:  // all resources taken
    case 27:  // out of resources
      return -FI_ENOMEM;
    case 8:   // no device
    case 28:  // Synapse is not initialised
      return -FI_ENODEV;
    case 18:
      return -FI_EOPNOTSUPP;
    case busy:
      return -FI_EAGAIN;
    case 34:  // mapping not found
      return -FI_EFAULT;
    case 42:
      return -FI_ETIMEDOUT;
    case 17:  // the device was reset
      return -FI_EIO;
    default:
      return -FI_EOTHER;
  }
}

result<void> done(int status) {
  if (status == 0) return {};
  return error{code_of(status)};
}

template <class Handle>
result<Handle> made(int status, Handle handle) {
  if (status == 0) return handle;
  return error{code_of(status)};
}

}  // namespace

result<int> synapse::device_fd() const {
  syn_device_info info;
  if (table_.device_get_info(the_device, &info) != 0 || info.fd < 0) return error{-FI_ENODEV};
  return info.fd;
}

result<synapse::pool> synapse::global_pool(int fd) const {
  void* scal = nullptr;
  void* handle = nullptr;
  scal_pool_info info;
  if (table_.scal_get_handle_from_fd(fd, &scal) != 0 ||
      table_.scal_get_pool_handle_by_name(scal, "global_hbm", &handle) != 0 ||
      table_.scal_pool_get_info(handle, &info) != 0)
    return error{-FI_ENODEV};
  return pool{info.device_base, info.total, info.allocated_base, info.free};
}

result<void> synapse::map_host(const void* host, std::uint64_t size) const {
  return done(table_.host_map(the_device, size, host));
}

result<void> synapse::unmap_host(const void* host) const {
  return done(table_.host_unmap(the_device, host));
}

result<syn_stream> synapse::make_stream() const {
  syn_stream stream = nullptr;
  const int status = table_.stream_create(&stream, the_device, 0);
  return made(status, stream);
}

result<syn_event> synapse::make_event() const {
  syn_event event = nullptr;
  const int status = table_.event_create(&event, the_device, 0);
  return made(status, event);
}

result<void> synapse::copy(syn_stream stream, std::uint64_t dst, std::uint64_t src,
                           std::uint64_t len, syn_direction direction) const {
  return done(table_.copy_async(stream, src, len, dst, direction));
}

result<void> synapse::record(syn_event event, syn_stream stream) const {
  return done(table_.event_record(event, stream));
}

result<cs_status> synapse::query(syn_event event) const {
  const int status = table_.event_query(event);
  if (status == 0) return cs_status::completed;
  if (status == busy) return cs_status::busy;
  return error{code_of(status)};
}

}  // namespace gaudi::hl
