// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gmock/gmock.h>

#include "hl/thunk.hpp"
#include "mock_routes.hpp"

namespace gaudi::test {

/// libhl-thunk as a mock: table() gives C functions that end in the mock made last. What is not
/// defined here would be compiled for each test that includes it: a quarter of a minute, and with
/// sanitizers a whole one.
class mock_library : mock_routes<mock_library> {
 public:
  mock_library();
  ~mock_library();

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

  static hl::functions table();
};

}  // namespace gaudi::test
