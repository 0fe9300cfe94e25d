// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/path_choice.hpp"

namespace gaudi::proto {
namespace {

using base::path_reason;

// Why what the source offers is not taken.
path_reason why_not_taken(const path_facts& f) noexcept {
  switch (f.offer) {
    case source_offer::keys:
      return f.source_is_kept ? path_reason::source_is_kept : path_reason::core_reads_badly;
    case source_offer::allocations:
      return path_reason::no_import;
    case source_offer::nothing:
      break;
  }
  return path_reason::source_asks_to_write;
}

// Why the source cannot write to the memory itself; undecided: it can.
path_reason why_not_written(const path_facts& f) noexcept {
  if (!f.sink_on_device) return f.sink_is_kept ? path_reason::sink_is_kept : path_reason::undecided;
  if (f.staging_is_chosen) return path_reason::staging_is_chosen;
  return f.sink_is_reached ? path_reason::undecided : path_reason::device_is_not_reached;
}

}  // namespace

bool asks_to_write(base::rendezvous_choice chosen, bool on_device, bool read_here) noexcept {
  if (chosen == base::rendezvous_choice::write) return true;
  if (chosen == base::rendezvous_choice::staged) return on_device;
  return !read_here;
}

path_choice choose_path_of_source(const path_facts& f) noexcept {
  const path_reason staged = why_not_written(f);
  if (staged != path_reason::undecided) return {transfer_path::slots, staged};
  return {transfer_path::write, why_not_taken(f)};
}

path_choice choose_path(const path_facts& f) noexcept {
  if (f.offer == source_offer::nothing) return choose_path_of_source(f);
  if (f.one_device) return {transfer_path::engine, path_reason::one_device};
  if (f.offer == source_offer::allocations && f.imports)
    return {transfer_path::dmabuf, path_reason::source_passes_dmabuf};
  if (f.offer == source_offer::keys && !f.source_is_kept && !f.core_reads_badly)
    return {transfer_path::read, path_reason::source_can_be_read};
  return choose_path_of_source(f);
}

const char* text_of(transfer_path path) noexcept {
  switch (path) {
    case transfer_path::engine:
      return "within the device";
    case transfer_path::dmabuf:
      return "by the NIC from device to device";
    case transfer_path::read:
      return "directly, read here";
    case transfer_path::write:
      return "directly, written by the sender";
    case transfer_path::slots:
      return "through staging buffers";
    case transfer_path::undecided:
      break;
  }
  return "nowhere yet";
}

}  // namespace gaudi::proto
