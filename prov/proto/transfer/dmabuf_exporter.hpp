// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/transfer/exported_dmabufs.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// The source's end of a transfer of device memory that its own process's NIC does not reach, and
/// that of a peer on this host may (dmabuf_importer): names its allocations, gives their dma-bufs
/// to a peer that asks, and tells it when they are freed.
///
/// Not thread safe: the caller holds the domain lock.
class dmabuf_exporter {
 public:
  dmabuf_exporter(const endpoint_settings& config, connection_manager& connections,
                  packet_channel& channel, const transfer_table& table) noexcept
      : config_(config), connections_(connections), channel_(channel), table_(table) {}

  /// Names the allocations of memory that is worth it. False: it is not passed.
  bool name_for_peer(const connection& c, const local_memory& memory, wire::rts_fields& rts) const;
  /// The peer asks for one.
  void export_to_peer(connection& c, const wire::dmabuf_ask_fields& request);

  [[nodiscard]] bool any_freed() const noexcept { return exported_.any_freed(); }
  void tell_of_freed();
  void connection_down(const connection& c) noexcept { exported_.forget_connection(c.id); }

 private:
  int send_dmabuf(connection& c, const transfer& t, std::uint32_t segment,
                  wire::dmabuf_fields& fields);

  const endpoint_settings& config_;
  connection_manager& connections_;
  packet_channel& channel_;
  const transfer_table& table_;
  exported_dmabufs exported_;
};

}  // namespace gaudi::proto
