// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "hl/abi.hpp"

namespace gaudi::hl {

/// synDmaDir.
enum class syn_direction : int { host_to_device = 0, device_to_host = 1, device_to_device = 2 };

/// synDeviceInfo, with room for fields of later releases.
struct syn_device_info {
  std::byte before[48] = {};
  int fd = -1;
  int type = 0;
  std::byte later[200] = {};
};
static_assert(sizeof(syn_device_info) == 256 && offsetof(syn_device_info, fd) == 48);

/// SCAL's description of a pool (scal_memory_pool_infoV2), with room for fields of later releases.
struct scal_pool_info {
  std::byte before[24] = {};
  std::uint64_t device_base = 0;
  std::byte between[16] = {};
  std::uint64_t total = 0;
  std::uint64_t free = 0;
  std::uint64_t allocated_base = 0;
  std::byte later[184] = {};
};
static_assert(sizeof(scal_pool_info) == 256 && offsetof(scal_pool_info, device_base) == 24);
static_assert(offsetof(scal_pool_info, total) == 48 &&
              offsetof(scal_pool_info, allocated_base) == 64);

using syn_stream = void*;
using syn_event = void*;

/// Entry points of libSynapse (those that begin with syn) and of libscal (prov/docs/device.md, 5.6
/// and 6) as plain C function pointers; none may be null. synStatus is an int.
struct synapse_functions {
  int (*device_get_info)(std::uint32_t device, syn_device_info* info) = nullptr;
  int (*host_map)(std::uint32_t device, std::uint64_t size, const void* host) = nullptr;
  int (*host_unmap)(std::uint32_t device, const void* host) = nullptr;
  int (*stream_create)(syn_stream* stream, std::uint32_t device, std::uint32_t flags) = nullptr;
  int (*stream_destroy)(syn_stream stream) = nullptr;
  int (*event_create)(syn_event* event, std::uint32_t device, std::uint32_t flags) = nullptr;
  int (*event_destroy)(syn_event event) = nullptr;
  int (*event_record)(syn_event event, syn_stream stream) = nullptr;
  int (*event_query)(syn_event event) = nullptr;
  int (*copy_async)(syn_stream stream, std::uint64_t source, std::uint64_t size,
                    std::uint64_t destination, syn_direction direction) = nullptr;
  int (*scal_get_handle_from_fd)(int fd, void** scal) = nullptr;
  int (*scal_get_pool_handle_by_name)(void* scal, const char* name, void** pool) = nullptr;
  int (*scal_pool_get_info)(void* pool, scal_pool_info* info) = nullptr;
};

/// Synapse, where the application uses it: behind one error convention, as thunk is. It has one
/// device in a process, and all of its HBM. Immutable; calls from several threads are safe.
class synapse {
 public:
  /// The one that this process has loaded already; loads nothing, as that would begin to
  /// initialise it. Kept loaded from then on. -FI_ENOSYS: there is none; -FI_EOPNOTSUPP: it lacks a
  /// function, or libscal is not there, after one warning.
  static base::result<std::shared_ptr<const synapse>> find();

  /// A table from elsewhere (tests).
  explicit synapse(const synapse_functions& table) : table_(table) {}

  /// The descriptor of the device that the application has acquired; it stays Synapse's.
  /// -FI_ENODEV: none is acquired.
  [[nodiscard]] base::result<int> device_fd() const;

  /// The part of HBM that it allocates from.
  struct pool {
    std::uint64_t base = 0;      ///< first device address
    std::uint64_t len = 0;       ///< bytes
    std::uint64_t map_base = 0;  ///< what the driver's map call gave for the mapping that holds it
    std::uint64_t free = 0;      ///< bytes not allocated now
  };
  /// Of a device by Synapse's own descriptor, not a duplicate. -FI_ENODEV: SCAL does not know it.
  [[nodiscard]] base::result<pool> global_pool(int fd) const;

  /// Pins host memory for the device; copies then name it by host addresses. -FI_EINVAL,
  /// -FI_ENOMEM, -FI_EIO.
  [[nodiscard]] base::result<void> map_host(const void* host, std::uint64_t size) const;
  /// `host` as it was mapped.
  [[nodiscard]] base::result<void> unmap_host(const void* host) const;

  /// A queue of copies that are carried out in order. The caller destroys it, when its copies have
  /// ended, before the application releases the device.
  [[nodiscard]] base::result<syn_stream> make_stream() const;
  void destroy_stream(syn_stream stream) const noexcept { table_.stream_destroy(stream); }
  /// What tells of the end of copies; the caller destroys it likewise.
  [[nodiscard]] base::result<syn_event> make_event() const;
  void destroy_event(syn_event event) const noexcept { table_.event_destroy(event); }

  // -FI_EIO: the device was reset; -FI_EOTHER: a failure of which Synapse does not tell more.

  /// Starts a copy, `len` > 0. -FI_EFAULT: its host side is not mapped.
  [[nodiscard]] base::result<void> copy(syn_stream stream, std::uint64_t dst, std::uint64_t src,
                                        std::uint64_t len, syn_direction direction) const;
  /// From now on the event stands for all that the stream was given before.
  [[nodiscard]] base::result<void> record(syn_event event, syn_stream stream) const;
  /// How far that is: completed or busy.
  [[nodiscard]] base::result<cs_status> query(syn_event event) const;

 private:
  synapse_functions table_;
};

}  // namespace gaudi::hl
