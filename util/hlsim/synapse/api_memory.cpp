// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>

#include "session.hpp"

// Memory: reference, section 5.6.

using namespace synsim;

namespace {

uint64_t address_of(const void* host) {
  return reinterpret_cast<uint64_t>(host);
}

synStatus status_of_map(int rc) {
  switch (rc) {
    case 0:
      return synSuccess;
    case -EINVAL:
      return synInvalidArgument;
    case -ENOMEM:
      return synOutOfHostMemory;
    default:
      return synFail;
  }
}

}  // namespace

synStatus synDeviceMalloc(synDeviceId, uint64_t size, uint64_t wanted, uint32_t,
                          uint64_t* address) {
  if (!address || size == 0) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    *address = s.take(size, wanted);
    return *address != 0 ? synSuccess : synOutOfDeviceMemory;
  });
}

synStatus synDeviceFree(synDeviceId, uint64_t address, uint32_t) {
  return with_device(synSuccess,
                     [&](session& s) { return s.give(address) ? synSuccess : synInvalidArgument; });
}

synStatus synHostMalloc(synDeviceId, uint64_t size, uint32_t, void** buffer) {
  if (!buffer || size == 0) return synInvalidArgument;
  return with_device(synFail, [&](session& s) {
    *buffer = reinterpret_cast<void*>(s.host().allocate(size));
    return *buffer ? synSuccess : synOutOfHostMemory;
  });
}

synStatus synHostFree(synDeviceId, const void* buffer, uint32_t) {
  return with_device(synInvalidArgument,
                     [&](session& s) { return status_of_map(s.host().free(address_of(buffer))); });
}

synStatus synHostMap(synDeviceId, uint64_t size, const void* buffer) {
  return with_device(synInvalidArgument, [&](session& s) {
    return status_of_map(s.host().map(address_of(buffer), size));
  });
}

synStatus synHostUnmap(synDeviceId, const void* buffer) {
  return with_device(synInvalidArgument,
                     [&](session& s) { return status_of_map(s.host().unmap(address_of(buffer))); });
}
