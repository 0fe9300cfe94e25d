// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

#include "base/params.hpp"
#include "base/path_reasons.hpp"

namespace gaudi::proto {

/// The ways that the bytes of a rendezvous can go; its sink chooses.
enum class transfer_path : std::uint8_t {
  undecided,
  engine,  // the device's engine copies within the device
  dmabuf,  // our NIC reads the source's device memory by its dma-buf
  read,    // the core, or the kernel, reads the source's memory
  write,   // the source's core writes to our memory
  slots,   // the source fills our staging slots
};

/// What of its memory the source lets us have.
enum class source_offer : std::uint8_t {
  nothing,      // it asks where to write to
  keys,         // of core regions, that can be read
  allocations,  // of its devices, by name
};

/// All that the choice depends on.
struct path_facts {
  source_offer offer = source_offer::nothing;
  bool one_device = false;         // source and sink are memory of one device in one process
  bool imports = false;            // our NIC may read the source's dma-bufs
  bool source_is_kept = false;     // the kernel keeps its memory from us
  bool core_reads_badly = false;   // and it is the core that would read
  bool sink_on_device = false;     // some of it is
  bool sink_is_reached = false;    // the core reaches it for the source to write
  bool sink_is_kept = false;       // the kernel keeps it from the source
  bool staging_is_chosen = false;  // FI_GAUDI_RNDV=staged
};

struct path_choice {
  transfer_path path = transfer_path::undecided;
  base::path_reason reason = base::path_reason::undecided;

  friend bool operator==(const path_choice&, const path_choice&) = default;
};

/// Whether a source with such memory, and FI_GAUDI_RNDV, keeps it from its sink, and asks where to
/// write to. `read_here`: its core lets others read it.
[[nodiscard]] bool asks_to_write(base::rendezvous_choice chosen, bool on_device,
                                 bool read_here) noexcept;

/// The shortest way that there is, and why no shorter one.
[[nodiscard]] path_choice choose_path(const path_facts& facts) noexcept;
/// The same without what needs the source's memory: it has to bring the data.
[[nodiscard]] path_choice choose_path_of_source(const path_facts& facts) noexcept;

/// For the log: what comes behind "data goes".
[[nodiscard]] const char* text_of(transfer_path path) noexcept;

}  // namespace gaudi::proto
