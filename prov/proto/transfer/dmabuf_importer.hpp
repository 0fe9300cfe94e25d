// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/result.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "reg/import_cache.hpp"

namespace gaudi::proto {

/// The sink's end of a transfer of device memory that the source's NIC does not reach, and ours
/// may: asks for the dma-bufs of the allocations that a source on this host names
/// (dmabuf_exporter), registers them with our NIC and lets that read. They are kept for the next
/// transfer, until the source tells that they are freed. What comes to nothing is staged.
///
/// Not thread safe: the caller holds the domain lock.
class dmabuf_importer {
 public:
  dmabuf_importer(const endpoint_settings& config, connection_manager& connections,
                  packet_channel& channel, const transfer_table& table, data_mover& mover) noexcept
      : config_(config),
        connections_(connections),
        channel_(channel),
        table_(table),
        mover_(mover) {}

  /// Whether our NIC may be tried for what the peer's allocations are to bring to this memory.
  [[nodiscard]] bool may_import(const connection& c, const local_memory& memory) const noexcept;
  /// Begins with what an rts with wire::alloc_ids names, where it may_import().
  void start(connection& c, const wire::rts_fields& rts, transfer& t);
  /// The source's answer. The transfer that has to be staged after all, or null.
  [[nodiscard]] transfer* handle_dmabuf(connection& c, const wire::dmabuf_fields& sent);
  void forget_freed(const connection& c, const wire::allocation_fields& told);
  void connection_down(const connection& c) {
    if (config_.dmabufs.imports) config_.dmabufs.imports->forget_peer(c.terms.instance);
  }

 private:
  void continue_import(connection& c, transfer& t);
  void ask_for_dmabuf(connection& c, const transfer& t);
  base::result<reg::import_cache::handle> import(const connection& c,
                                                 const wire::dmabuf_fields& sent, int fd);
  transfer* give_up(connection& c, transfer& t, int why);

  const endpoint_settings& config_;
  connection_manager& connections_;
  packet_channel& channel_;
  const transfer_table& table_;
  data_mover& mover_;
};

}  // namespace gaudi::proto
