// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric.hpp"
#include "common/failure.hpp"
#include "common/patience.hpp"

namespace gaudi::perf {

using common::failure;
using common::fid_ptr;
using common::info_ptr;
using common::require;

/// One operation in flight. Its address is the operation's context, so it stays where it is until
/// busy() is false.
class ticket {
 public:
  bool busy() const { return busy_; }

  /// Bytes that arrived, for a finished receive.
  std::size_t length() const { return length_; }

 private:
  friend class endpoint;
  // First: the provider's scratch space where it asks for FI_CONTEXT.
  [[maybe_unused]] fi_context2 context_{};
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
  std::chrono::seconds timeout{60};
};

/// An RDM endpoint with one completion queue and one peer. One thread. Everything fails with a
/// failure; no wait is longer than the time-out without progress.
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

  /// Asked now and then during long waits; true ends the wait with a failure.
  void set_peer_gone(std::function<bool()> probe) { peer_gone_ = std::move(probe); }

  void send(local_memory from, std::size_t size, ticket& done);
  void receive(local_memory to, std::size_t size, ticket& done);
  void tagged_send(local_memory from, std::size_t size, std::uint64_t tag, ticket& done);
  void tagged_receive(local_memory to, std::size_t size, std::uint64_t tag, ticket& done);

  /// Finishes when the bytes are visible at the target (FI_DELIVERY_COMPLETE).
  /// `more`: another follows at once (FI_MORE).
  void write(local_memory from, std::size_t size, remote_memory to, ticket& done,
             bool more = false);
  void read(local_memory to, std::size_t size, remote_memory from, ticket& done, bool more = false);

  /// Calls that the provider had no room for (-FI_EAGAIN) and that were repeated.
  std::uint64_t refused() const { return refused_; }

  /// Polls once; true when an operation finished.
  bool progress();

  template <class Predicate>
  void wait_until(Predicate done, std::string_view what) {
    common::patience waited(timeout_);
    while (!done()) wait_step(waited, what);
  }
  void wait(const ticket& t, std::string_view what) {
    wait_until([&t] { return !t.busy(); }, what);
  }

 private:
  void wait_step(common::patience& waited, std::string_view what);
  [[noreturn]] void report_error();
  template <class Post>
  void start(ticket& done, std::string_view call, Post post);
  template <class Post>
  void start_rma(local_memory here, std::size_t size, remote_memory there, ticket& done,
                 std::string_view call, Post post);

  std::chrono::seconds timeout_;
  std::function<bool()> peer_gone_;
  std::uint64_t refused_ = 0;
  const fi_gaudi_ops* ops_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;

  common::rdm_endpoint open_;
};

}  // namespace gaudi::perf
