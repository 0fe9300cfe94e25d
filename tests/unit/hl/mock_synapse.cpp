// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mock_synapse.hpp"

namespace gaudi::test {

mock_synapse::mock_synapse() : mock_routes(*this) {}
mock_synapse::~mock_synapse() = default;

hl::synapse_functions mock_synapse::table() {
  return {.device_get_info = route<&mock_synapse::device_get_info>,
          .host_map = route<&mock_synapse::host_map>,
          .host_unmap = route<&mock_synapse::host_unmap>,
          .stream_create = route<&mock_synapse::stream_create>,
          .stream_destroy = route<&mock_synapse::stream_destroy>,
          .event_create = route<&mock_synapse::event_create>,
          .event_destroy = route<&mock_synapse::event_destroy>,
          .event_record = route<&mock_synapse::event_record>,
          .event_query = route<&mock_synapse::event_query>,
          .copy_async = route<&mock_synapse::copy_async>,
          .scal_get_handle_from_fd = route<&mock_synapse::scal_get_handle_from_fd>,
          .scal_get_pool_handle_by_name = route<&mock_synapse::scal_get_pool_handle_by_name>,
          .scal_pool_get_info = route<&mock_synapse::scal_pool_get_info>};
}

}  // namespace gaudi::test
