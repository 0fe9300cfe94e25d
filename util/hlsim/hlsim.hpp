// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "abi.hpp"
#include "exported.hpp"

// Prototypes of everything the stand-in exports, for the library itself and for tests that link it.
// A consumer of the real library resolves the same names with dlsym. Return conventions: reference,
// section 1.4.
extern "C" {
HLSIM_API int hlthunk_open(hlthunk_device_name name, const char* bus_id);
HLSIM_API int hlthunk_open_by_module_id(uint32_t module_id);
HLSIM_API int hlthunk_open_control(int index, const char* bus_id);
HLSIM_API int hlthunk_open_control_by_name(hlthunk_device_name name, const char* bus_id);
HLSIM_API int hlthunk_open_control_by_module_id(uint32_t module_id);
HLSIM_API int hlthunk_open_control_by_bus_id(const char* bus_id);
HLSIM_API int hlthunk_close(int fd);

HLSIM_API uint32_t hlthunk_get_device_id_from_fd(int fd);
HLSIM_API hlthunk_device_name hlthunk_get_device_name_from_fd(int fd);
HLSIM_API int hlthunk_get_pci_bus_id_from_fd(int fd, char* text, int size);
HLSIM_API int hlthunk_get_device_index_from_pci_bus_id(const char* bus_id);
HLSIM_API int hlthunk_get_device_count(hlthunk_device_name name);
HLSIM_API int hlthunk_get_hw_ip_info(int fd, hlthunk_hw_ip_info* info);
HLSIM_API int hlthunk_get_dram_usage(int fd, hlthunk_dram_usage_info* info);
HLSIM_API int hlthunk_get_device_status_info(int fd);
HLSIM_API bool hlthunk_is_device_idle(int fd);
HLSIM_API int hlthunk_get_open_stats(int fd, hlthunk_open_stats_info* info);
HLSIM_API int hlthunk_get_reset_count_info(int fd, hlthunk_reset_count_info* info);
HLSIM_API int hlthunk_get_sync_manager_info(int fd, int dcore, hlthunk_sync_manager_info* info);
HLSIM_API int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t* bitmask);

HLSIM_API uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size,
                                               bool contiguous, bool shared);
HLSIM_API int hlthunk_device_memory_free(int fd, uint64_t handle);
HLSIM_API uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint);
HLSIM_API uint64_t hlthunk_host_memory_map(int fd, void* host, uint64_t hint, uint64_t size);
HLSIM_API uint64_t hlthunk_host_memory_map_flags(int fd, void* host, uint64_t hint, uint64_t size,
                                                 uint32_t flags);
HLSIM_API int hlthunk_memory_unmap(int fd, uint64_t va);
HLSIM_API int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t address, uint64_t size,
                                                     uint32_t flags);
HLSIM_API int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t address, uint64_t size,
                                                            uint64_t offset, uint32_t flags);

HLSIM_API int hlthunk_request_command_buffer(int fd, uint32_t size, uint64_t* handle);
HLSIM_API int hlthunk_destroy_command_buffer(int fd, uint64_t handle);
HLSIM_API int hlthunk_command_submission(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out);
HLSIM_API int hlthunk_command_submission_timeout(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out,
                                                 uint32_t seconds);
HLSIM_API int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t* status);
HLSIM_API int hlthunk_wait_for_multi_cs(int fd, hlthunk_wait_multi_cs_in* in,
                                        hlthunk_wait_multi_cs_out* out);
HLSIM_API int hlthunk_cs_flush_pci_hbw_writes(int fd);

// Asynchronous events: HL_NOTIFIER_EVENT_*, told through an eventfd.
HLSIM_API int hlthunk_notifier_create(int fd);
HLSIM_API int hlthunk_notifier_release(int fd, int handle);
HLSIM_API int hlthunk_notifier_recv(int fd, int handle, uint64_t* events, uint64_t* count,
                                    uint32_t flags, uint32_t timeout_ms);

// Of libhl-thunk's companion for error injection. What differs: hlsim(7).
HLSIM_API int hlthunk_err_inject_endless_command(int fd);
HLSIM_API int hlthunk_err_inject_non_fatal_event(int fd, int* event);
HLSIM_API int hlthunk_err_inject_fatal_event(int fd, int* event);
HLSIM_API int hlthunk_err_inject_loss_of_heartbeat(int fd);
HLSIM_API int hlthunk_err_inject_thermal_event(int fd);
HLSIM_API int hlthunk_err_eject_thermal_event(int fd);

HLSIM_API char* hlthunk_get_version(void);
HLSIM_API void* hlthunk_malloc(size_t size);
HLSIM_API void hlthunk_free(void* block);

// Not part of libhl-thunk: for the stand-in of libSynapse, whose real one has DMA engines that it
// drives without the driver.

/// Starts LIN_DMA packets, `bytes` of them, on one of `hlsim_channels` channels of the device's: in
/// order with all that was started there before, whatever its queues do. `seq` is for
/// hlthunk_wait_for_cs. Blocks while too much is in flight. 0; -EINVAL; -EOPNOTSUPP: a Gaudi1; or
/// what hlthunk_command_submission says to a device that does not work.
HLSIM_API int hlsim_start(int fd, uint32_t channel, const void* packets, uint32_t bytes,
                          uint64_t* seq);
inline constexpr uint32_t hlsim_channels = 8;

/// Not part of libhl-thunk: tells a consumer that it runs on the stand-in. Static storage.
HLSIM_API const char* hlsim_description(void);
}
