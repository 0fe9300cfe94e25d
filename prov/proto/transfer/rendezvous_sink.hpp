// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "core/inner_domain.hpp"
#include "device/device_registry.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/transfer/cooperative_copier.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/dmabuf_importer.hpp"
#include "proto/transfer/path_choice.hpp"
#include "proto/transfer/slot_granter.hpp"
#include "proto/transfer/transfer_completion.hpp"

namespace gaudi::proto {

/// The receiver's end of data that does not fit one packet (rendezvous_source): which way an rts is
/// answered.
///
/// Has no state of its own. Not thread safe: the caller holds the domain lock.
class rendezvous_sink {
 public:
  rendezvous_sink(core::inner_domain& core, const endpoint_settings& config,
                  const device::device_registry& devices, packet_channel& channel,
                  transfer_completion& completion, slot_granter& slots,
                  cooperative_copier& cooperative, data_mover& mover, dmabuf_importer& importer,
                  operation_records& records, path_counters& paths) noexcept
      : core_(core),
        config_(config),
        devices_(devices),
        channel_(channel),
        completion_(completion),
        slots_(slots),
        cooperative_(cooperative),
        mover_(mover),
        importer_(importer),
        records_(records),
        paths_(paths) {}

  /// The transfer's memory is where the data goes, and its length what is wanted of it. It may have
  /// ended on return.
  void start(connection& c, const wire::rts_fields& rts, std::uint8_t flags, transfer& t);
  /// The source has to bring it, as our NIC does not read its dma-buf after all.
  void ask_to_write(connection& c, transfer& t);

 private:
  [[nodiscard]] path_facts facts_of(connection& c, const wire::rts_fields& rts, std::uint8_t flags,
                                    const transfer& t) const;
  [[nodiscard]] path_facts facts_of_sink(connection& c, const transfer& t) const;
  [[nodiscard]] bool is_one_device(const connection& c, const wire::rts_fields& source,
                                   bool by_allocation, const local_memory& sink) const noexcept;
  void go(connection& c, const wire::rts_fields& rts, transfer& t, const path_choice& chosen);
  void read_source(connection& c, const wire::rts_fields& rts, transfer& t);
  void have_it_written(transfer& t);

  core::inner_domain& core_;
  const endpoint_settings& config_;
  const device::device_registry& devices_;
  packet_channel& channel_;
  transfer_completion& completion_;
  slot_granter& slots_;
  cooperative_copier& cooperative_;
  data_mover& mover_;
  dmabuf_importer& importer_;
  operation_records& records_;
  path_counters& paths_;
};

}  // namespace gaudi::proto
