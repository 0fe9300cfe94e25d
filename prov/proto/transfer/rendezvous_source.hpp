// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "core/inner_domain.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/transfer/dmabuf_exporter.hpp"

namespace gaudi::proto {

/// The owner's end of data that does not fit one packet: what its rts offers.
///
/// The owner of the source sends an rts. Either it names the source's memory, and the sink pulls it
/// by core reads; or it asks for a grant (wire::needs_cts), and the sink answers with its final
/// memory or with staging slots, and the source writes. Which one is FI_GAUDI_RNDV's choice, and
/// each works with every kind of memory at either end: what the core reaches it moves itself,
/// device memory that it does not reach goes through chunks and slots, which are emptied to the
/// sink's device and given back. Between endpoints of one process the device itself copies. Of
/// peers on one host that one copies whom the kernel lets, and the other helps
/// (cooperative_copier); if it lets neither, host memory goes through slots, too; and what only the
/// sink's NIC reaches is pulled by that (dmabuf_importer). In the end the sink sends `fin`, which
/// ends the source's operation; before that, a source that wrote to final memory sends `fin` to the
/// sink, which cannot know otherwise.
///
/// Has no state of its own. Not thread safe: the caller holds the domain lock.
class rendezvous_source {
 public:
  rendezvous_source(core::inner_domain& core, const endpoint_settings& config,
                    const dmabuf_exporter& exporter) noexcept
      : core_(core), config_(config), exporter_(exporter) {}

  /// Fills in the rts of a source; adds to its message's flags. 0 or -FI_E*.
  int offer(transfer& t, wire::rts_fields& rts, std::uint8_t& flags) noexcept;
  /// Whether a rendezvous is the shorter way for what fits into one packet. In shared memory, where
  /// the CPU copies that twice: for host memory from endpoint_settings::max_by_ring on, where the
  /// peer reads it in one copy; for device memory, which a packet takes through the copy engine as
  /// well, through slots, or however short the message is where both ends have a NIC that reads it.
  [[nodiscard]] bool is_shorter(const connection& c, const local_memory& memory) const noexcept;

 private:
  [[nodiscard]] bool is_read_by_peer(const connection& c) const noexcept;
  [[nodiscard]] bool nic_reads(const local_memory& memory) const noexcept;
  [[nodiscard]] bool wants_cts(const local_memory& memory) const noexcept;

  core::inner_domain& core_;
  const endpoint_settings& config_;
  const dmabuf_exporter& exporter_;
};

/// Describes the transfer's memory for the peer. Host memory is made accessible to it for the time
/// of the transfer; device memory is reached by the core already. 0 or -FI_E*.
int expose(core::inner_domain& core, transfer& t, wire::rts_fields& rts, std::uint64_t access);

}  // namespace gaudi::proto
