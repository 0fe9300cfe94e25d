// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric.hpp"
#include "counter_books.hpp"
#include "settings.hpp"

namespace gaudi::stress {

/// Local memory of an operation.
struct local_memory {
  void* address = nullptr;
  void* desc = nullptr;
};

/// A peer's memory as RMA addresses it.
struct remote_memory {
  std::uint64_t address = 0;
  std::uint64_t key = 0;
};

/// The end of an operation or a receive, or a peer's write with data (no context).
struct completion {
  void* context = nullptr;
  void* buffer = nullptr;  ///< of a message in a buffer that takes many: where it is
  std::uint64_t flags = 0;
  std::size_t length = 0;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  int error = 0;  ///< a positive FI_E*
};

/// All that one operation of a plan hands to libfabric.
struct request {
  operation op = operation::send;
  std::size_t size = 0;
  local_memory near{};
  local_memory result{};
  local_memory compared{};
  remote_memory far{};
  std::uint64_t id = 0;    ///< tag and remote data
  std::size_t ranges = 1;  ///< of the target's memory that RMA is on: parts of `far`
};

/// An RDM endpoint with one completion queue and many peers. One thread.
class endpoint {
 public:
  /// source: address of this host to bind to; empty: the provider's choice.
  endpoint(const settings& s, bool device, const std::string& source);

  std::vector<std::uint8_t> name() const;

  /// Has the address at a number in place of any earlier one.
  void set_peer(unsigned number, const std::vector<std::uint8_t>& name);

  /// Ends the endpoint alone, with what is under way. Nothing but its memory may be used then.
  void close() { open_.ep.reset(); }

  const fi_info& info() const { return *open_.info; }
  fid_domain* domain() const { return open_.domain.get(); }

  /// These give what libfabric gives: 0, -FI_EAGAIN, another negative code.
  long post(const request& r, unsigned peer, void* context);
  /// flags: FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV
  long receive(const request& r, unsigned peer, std::uint64_t flags, void* context);
  void cancel(void* context) { fi_cancel(&open_.ep->fid, context); }

  /// Whether an operation has a completion; what is injected has none.
  static bool completes(operation op) { return !is_injected(op); }

  /// A buffer that takes many messages takes no more once fewer bytes than these are left in it.
  void set_min_multi_receive(std::size_t size);

  std::optional<completion> poll();

  /// What the counters count; all 0 where there are none.
  counter_values read_counters() const;

 private:
  long post_message(const request& r, fi_addr_t to, void* context);
  long post_rma(const request& r, fi_addr_t to, void* context);
  long post_atomic(const request& r, fi_addr_t to, void* context);
  long receive_specially(const request& r, fi_addr_t from, std::uint64_t flags, void* context);
  completion read_error();

  std::vector<fi_addr_t> peers_;
  common::rdm_endpoint open_;
};

}  // namespace gaudi::stress
