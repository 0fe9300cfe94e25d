// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/transfer/dmabuf_exporter.hpp"
#include "proto/transfer/dmabuf_importer.hpp"

namespace gaudi::proto {

/// Device memory that peers on this host read with their NIC, or let ours read, by its dma-buf.
/// Composes both ends, and nothing else.
struct dmabuf_sharing {
  dmabuf_sharing(const endpoint_settings& config, connection_manager& connections,
                 packet_channel& channel, transfer_table& table, data_mover& mover) noexcept
      : exporter(config, connections, channel, table),
        importer(config, connections, channel, table, mover) {}

  void connection_down(connection& c) {
    exporter.connection_down(c);
    importer.connection_down(c);
  }

  dmabuf_exporter exporter;
  dmabuf_importer importer;
};

}  // namespace gaudi::proto
