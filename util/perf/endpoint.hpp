// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric.hpp"
#include "common/failure.hpp"
#include "common/latency.hpp"

namespace gaudi::perf {

using common::failure;
using common::fid_ptr;
using common::info_ptr;
using common::require;

/// One operation in flight. Its address is the operation's context, so it stays where it is until
/// busy() is false. The base is the provider's scratch space where it asks for FI_CONTEXT.
class ticket : fi_context2 {
 public:
  bool busy() const { return busy_; }

  /// Bytes that arrived, for a finished receive.
  std::size_t length() const { return length_; }

 private:
  friend class endpoint;
  bool busy_ = false;
  std::size_t length_ = 0;
};

/// Local memory of an operation.
struct local_memory {
  void* address;
  void* desc;
};

/// Memory of the peer as RMA addresses it.
struct remote_memory {
  std::uint64_t address;
  std::uint64_t key;
};

struct endpoint_request {
  std::string provider;
  bool device = false;
  std::string source;  ///< address of this host to bind to; empty: the provider's choice
};

/// In microseconds.
struct stall_times {
  common::stopwatch since_last;
  double longest = 0;
};

/// An RDM endpoint with a domain and a completion queue of its own, and one peer. One thread at a
/// time. Everything fails with a failure. Nothing waits: what starts an operation gives false where
/// the provider has no room for it (-FI_EAGAIN), and is called again after some progress.
class endpoint {
 public:
  explicit endpoint(const endpoint_request& request);

  std::vector<std::uint8_t> name() const;
  void set_peer(const std::vector<std::uint8_t>& name);

  const fi_info& info() const { return *open_.info; }
  fid_domain* domain() const { return open_.domain.get(); }

  /// The provider's operations on device memory; find gives null, the other a failure, where the
  /// provider has none.
  const fi_gaudi_ops* find_device_ops();
  const fi_gaudi_ops& device_ops();

  [[nodiscard]] bool send(local_memory from, std::size_t size, ticket& done);
  [[nodiscard]] bool receive(local_memory to, std::size_t size, ticket& done);
  [[nodiscard]] bool tagged_send(local_memory from, std::size_t size, std::uint64_t tag,
                                 ticket& done);
  [[nodiscard]] bool tagged_receive(local_memory to, std::size_t size, std::uint64_t tag,
                                    ticket& done);

  /// Finishes when the bytes are visible at the target (FI_DELIVERY_COMPLETE).
  /// `more`: another follows at once (FI_MORE).
  [[nodiscard]] bool write(local_memory from, std::size_t size, remote_memory to, ticket& done,
                           bool more = false);
  [[nodiscard]] bool read(local_memory to, std::size_t size, remote_memory from, ticket& done,
                          bool more = false);

  /// Calls that the provider had no room for.
  std::uint64_t refused() const { return refused_; }

  /// Polls once; true when an operation finished.
  bool progress();

  /// From now on the longest time is kept in which no operation finishes: until the first, or
  /// between two.
  void time_stalls() { stalls_.emplace(); }
  /// That time in microseconds, 0 where none has finished; times no more.
  double stop_timing_stalls();

 private:
  [[noreturn]] void report_error();
  template <class Post>
  bool start(ticket& done, std::string_view call, Post post);
  template <class Post>
  bool start_rma(local_memory here, std::size_t size, remote_memory there, ticket& done,
                 std::string_view call, Post post);

  std::uint64_t refused_ = 0;
  std::optional<stall_times> stalls_;
  const fi_gaudi_ops* ops_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;

  common::rdm_endpoint open_;
};

}  // namespace gaudi::perf
