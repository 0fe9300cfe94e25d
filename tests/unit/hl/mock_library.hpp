// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gmock/gmock.h>

#include "hl/thunk.hpp"

namespace gaudi::test {

/// libhl-thunk as a mock: table() gives C functions that end in the mock made last.
class mock_library {
 public:
  mock_library() { current = this; }
  ~mock_library() { current = nullptr; }
  mock_library(const mock_library&) = delete;
  mock_library& operator=(const mock_library&) = delete;

  MOCK_METHOD(int, open, (hl::device_name, const char*));
  MOCK_METHOD(int, open_control, (int, const char*));
  MOCK_METHOD(int, open_control_by_module_id, (std::uint32_t));
  MOCK_METHOD(int, close, (int));
  MOCK_METHOD(std::uint32_t, get_device_id_from_fd, (int));
  MOCK_METHOD(int, get_pci_bus_id_from_fd, (int, char*, int));
  MOCK_METHOD(int, get_device_index_from_pci_bus_id, (const char*));
  MOCK_METHOD(int, get_device_count, (hl::device_name));
  MOCK_METHOD(int, get_hw_ip_info, (int, void*));
  MOCK_METHOD(int, get_dram_usage, (int, hl::dram_usage*));
  MOCK_METHOD(hl::device_status, get_device_status_info, (int));
  MOCK_METHOD(int, get_open_stats, (int, hl::open_stats*));
  MOCK_METHOD(std::uint64_t, device_memory_alloc, (int, std::uint64_t, std::uint64_t, bool, bool));
  MOCK_METHOD(int, device_memory_free, (int, std::uint64_t));
  MOCK_METHOD(std::uint64_t, device_memory_map, (int, std::uint64_t, std::uint64_t));
  MOCK_METHOD(std::uint64_t, host_memory_map, (int, void*, std::uint64_t, std::uint64_t));
  MOCK_METHOD(int, memory_unmap, (int, std::uint64_t));
  MOCK_METHOD(int, export_dmabuf,
              (int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t));
  MOCK_METHOD(int, export_physical, (int, std::uint64_t, std::uint64_t, std::uint32_t));
  MOCK_METHOD(int, request_command_buffer, (int, std::uint32_t, std::uint64_t*));
  MOCK_METHOD(int, destroy_command_buffer, (int, std::uint64_t));
  MOCK_METHOD(int, command_submission, (int, hl::cs_in*, hl::cs_out*));
  MOCK_METHOD(int, wait_for_cs, (int, std::uint64_t, std::uint64_t, std::uint32_t*));
  MOCK_METHOD(int, cs_flush_pci_hbw_writes, (int));

  static hl::functions table() {
    return {
        .open = route<&mock_library::open>,
        .open_control = route<&mock_library::open_control>,
        .open_control_by_module_id = route<&mock_library::open_control_by_module_id>,
        .close = route<&mock_library::close>,
        .get_device_id_from_fd = route<&mock_library::get_device_id_from_fd>,
        .get_pci_bus_id_from_fd = route<&mock_library::get_pci_bus_id_from_fd>,
        .get_device_index_from_pci_bus_id = route<&mock_library::get_device_index_from_pci_bus_id>,
        .get_device_count = route<&mock_library::get_device_count>,
        .get_hw_ip_info = route<&mock_library::get_hw_ip_info>,
        .get_dram_usage = route<&mock_library::get_dram_usage>,
        .get_device_status_info = route<&mock_library::get_device_status_info>,
        .get_open_stats = route<&mock_library::get_open_stats>,
        .device_memory_alloc = route<&mock_library::device_memory_alloc>,
        .device_memory_free = route<&mock_library::device_memory_free>,
        .device_memory_map = route<&mock_library::device_memory_map>,
        .host_memory_map = route<&mock_library::host_memory_map>,
        .memory_unmap = route<&mock_library::memory_unmap>,
        .device_mapped_memory_export_dmabuf_fd = route<&mock_library::export_dmabuf>,
        .device_memory_export_dmabuf_fd = route<&mock_library::export_physical>,
        .request_command_buffer = route<&mock_library::request_command_buffer>,
        .destroy_command_buffer = route<&mock_library::destroy_command_buffer>,
        .command_submission = route<&mock_library::command_submission>,
        .wait_for_cs = route<&mock_library::wait_for_cs>,
        .cs_flush_pci_hbw_writes = route<&mock_library::cs_flush_pci_hbw_writes>};
  }

 private:
  /// A C function for a method; the type it is converted to chooses R and Args.
  template <auto Method, class R, class... Args>
  static R route(Args... args) {
    return (current->*Method)(args...);
  }

  static inline mock_library* current = nullptr;
};

}  // namespace gaudi::test
