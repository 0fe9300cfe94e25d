// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/domain_lock.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/eq.hpp"
#include "fi/common/fork_guard.hpp"
#include "proto/peer/address_vector.hpp"

namespace gaudi::fi {

/// What an address vector needs of its domain, which outlives it.
struct av_parent {
  child_count& open_children;
  base::domain_lock& lock;
  std::uint32_t addr_format;  ///< of the fi_info that the domain was opened with
};

/// fid_av of the provider, see fi_av(3): a C interface over proto::address_vector. Takes the domain
/// lock for each change; names are resolved outside it.
class av final : public fid_av {
 public:
  /// `own` has its tables.
  av(const fid_av& own, const av_parent& parent, const fi_av_attr& attr) noexcept;

  static av& of(fid_t f) noexcept { return *static_cast<av*>(reinterpret_cast<fid_av*>(f)); }
  static av& of(fid_av* a) noexcept { return *static_cast<av*>(a); }

  /// Nothing may be done with it here then.
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }

  /// Under the domain lock, which an endpoint knows by another name.
  proto::address_vector& addresses() noexcept {
    lock_.assert_held();
    return addresses_;
  }
  /// Bound endpoints: each holds a children::ref, and fi_close is -FI_EBUSY while one does.
  child_count& bound() noexcept { return bound_; }

  /// The operations of fi_ops_av, on the object.
  int insert(const void* addr, std::size_t count, fi_addr_t* fi_addr, std::uint64_t flags,
             void* context);
  int insert_service(const char* node, const char* service, fi_addr_t* fi_addr, std::uint64_t flags,
                     void* context);
  int insert_symmetric(const char* node, std::size_t nodecnt, const char* service,
                       std::size_t svccnt, fi_addr_t* fi_addr, std::uint64_t flags, void* context);
  int remove(std::span<const fi_addr_t> fi_addr);
  int lookup(fi_addr_t fi_addr, void* addr, std::size_t* length);
  int bind_event_queue(fid_t eq);
  /// The address that the bytes at `addr` are in the domain's format.
  [[nodiscard]] proto::net_address read(const void* addr) const noexcept;

 private:
  int check_insert(std::uint64_t flags, const void* context) const;
  /// Inserts all of `addresses`; an empty one is a failed resolution and keeps its place in the
  /// results.
  int insert_all(std::span<const proto::net_address> addresses, fi_addr_t* fi_addr,
                 std::uint64_t flags, void* context);
  void report_error(void* context, std::size_t index, int err,
                    event_queue::reserved_events& events);
  [[nodiscard]] bool asynchronous() const noexcept { return (flags_ & FI_EVENT) != 0; }

  const fork_guard fork_guard_;
  child_count::ref parent_;
  child_count bound_;
  base::domain_lock& lock_;
  const std::uint32_t addr_format_;
  const std::uint64_t flags_;
  event_queue* eq_ = nullptr;
  child_count::ref eq_ref_;
  proto::address_vector addresses_ GAUDI_GUARDED_BY(lock_);
};

}  // namespace gaudi::fi
