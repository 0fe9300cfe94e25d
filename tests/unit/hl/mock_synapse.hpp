// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gmock/gmock.h>

#include "hl/synapse.hpp"
#include "mock_routes.hpp"

namespace gaudi::test {

/// libSynapse and libscal as a mock: table() gives C functions that end in the mock made last.
/// Defined apart, as mock_library is.
class mock_synapse : mock_routes<mock_synapse> {
 public:
  mock_synapse();
  ~mock_synapse();

  MOCK_METHOD(int, device_get_info, (std::uint32_t, hl::syn_device_info*));
  MOCK_METHOD(int, host_map, (std::uint32_t, std::uint64_t, const void*));
  MOCK_METHOD(int, host_unmap, (std::uint32_t, const void*));
  MOCK_METHOD(int, stream_create, (hl::syn_stream*, std::uint32_t, std::uint32_t));
  MOCK_METHOD(int, stream_destroy, (hl::syn_stream));
  MOCK_METHOD(int, event_create, (hl::syn_event*, std::uint32_t, std::uint32_t));
  MOCK_METHOD(int, event_destroy, (hl::syn_event));
  MOCK_METHOD(int, event_record, (hl::syn_event, hl::syn_stream));
  MOCK_METHOD(int, event_query, (hl::syn_event));
  MOCK_METHOD(int, copy_async,
              (hl::syn_stream, std::uint64_t, std::uint64_t, std::uint64_t, hl::syn_direction));
  MOCK_METHOD(int, scal_get_handle_from_fd, (int, void**));
  MOCK_METHOD(int, scal_get_pool_handle_by_name, (void*, const char*, void**));
  MOCK_METHOD(int, scal_pool_get_info, (void*, hl::scal_pool_info*));

  static hl::synapse_functions table();
};

}  // namespace gaudi::test
