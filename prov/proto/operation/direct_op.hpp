// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/outstanding_page.hpp"
#include "base/probes.hpp"
#include "proto/operation/completion_spec.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/operations.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/operation/rma_request.hpp"

namespace gaudi::proto {

/// An RMA operation that is one operation of the core: the direct_rma's.
struct direct_op : posted_op {
  static constexpr std::size_t max_kept = 64;  // bytes

  /// `descriptor`: memory.core_descriptor().
  direct_op(proto::connection& c, const local_segment& memory, void* descriptor,
            const rma_access& access, bool reads) noexcept
      : posted_op(kind::direct),
        on(&c),
        operation{.read = reads,
                  .bytes = memory.host(),
                  .descriptor = descriptor,
                  .length = memory.length,
                  .remote = {access.address, access.key, memory.length}},
        registered(memory.registered),
        owner(memory.owner),
        completion(access.completion),
        data(access.data),
        has_data(access.has_data) {}

  /// Leaves the memory to the application: at most max_kept bytes of host memory. `flag`: what the
  /// core wants for memory without a descriptor.
  void keep_bytes(std::uint64_t flag) noexcept {
    std::memcpy(kept.data(), operation.bytes, operation.length);
    operation.bytes = kept.data();
    operation.descriptor = nullptr;
    registered = nullptr;
    operation.flags |= flag;
  }

  [[nodiscard]] local_memory memory() const noexcept {
    return local_memory::of({.address = reinterpret_cast<std::uint64_t>(operation.bytes),
                             .length = operation.length,
                             .registered = registered,
                             .owner = owner});
  }
  /// What static probes call it: longer than the names of transfers.
  [[nodiscard]] std::uint64_t name() const noexcept {
    return reinterpret_cast<std::uint64_t>(this);
  }
  /// Its connection has failed, and the core gives it back later or not at all: the application
  /// hears of it now.
  void fail(int error) noexcept {
    record.reset();
    if (!std::exchange(on, nullptr)) return;
    base::probes::transfer_complete(name(), operation.length, error);
    completion.end({.error = error});
  }

  proto::connection* on;  // null: the application has been told
  rma_request operation;
  const reg::region* registered;  // the memory here, as the application gave it, or null
  device::device* const owner;    // of the memory here; null: no Gaudi of this process
  const completion_spec completion;
  const std::uint64_t data;  // for the peer, of a write with remote CQ data
  const bool has_data;
  base::outstanding::record_owner record;  // what others see of it (operation_records)
  std::array<std::byte, max_kept> kept;    // until the core gives it back, as it may be done again
};

}  // namespace gaudi::proto
