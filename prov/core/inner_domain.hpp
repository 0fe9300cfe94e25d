// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/random_source.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"

namespace gaudi::core {

/// Memory registered with the core provider.
class inner_mr {
 public:
  inner_mr() = default;
  explicit inner_mr(unique_fid<fid_mr> mr) noexcept : mr_(std::move(mr)) {}

  explicit operator bool() const noexcept { return mr_ != nullptr; }
  /// For local use; nullptr when empty.
  [[nodiscard]] void* descriptor() const noexcept { return mr_ ? fi_mr_desc(mr_.get()) : nullptr; }
  /// For a peer, together with the memory's virtual address.
  [[nodiscard]] std::uint64_t key() const noexcept { return mr_ ? fi_mr_key(mr_.get()) : 0; }

 private:
  unique_fid<fid_mr> mr_;
};

/// A part of a dma-buf, to be addressed by device addresses.
struct dmabuf_range {
  int fd;                   ///< the caller's; the core keeps the dma-buf, not the descriptor
  std::uint64_t offset;     ///< of the range's first byte in the dma-buf
  std::size_t length;       ///< bytes
  std::uint64_t base_addr;  ///< device address of the dma-buf's first byte
};

/// Whether an info of the core's is for RDMA, so that its domain is a NIC.
bool is_rdma(const fi_info& info) noexcept;

/// Whether a connection of that release may be lost in the middle of an fi_read with no harm to the
/// others. tcp before libfabric 1.18 then ends the read twice, and frees what it keeps of it twice
/// (tcpx_ep.c, tcpx_ep_flush_all_queues): from then on its operations have that in common.
[[nodiscard]] constexpr bool reads_safely(bool over_rdma, std::uint32_t libfabric) noexcept {
  return over_rdma || libfabric >= FI_VERSION(1, 18);
}

/// The core provider's fabric and domain under one of ours. Opened for FI_THREAD_DOMAIN: all calls
/// on it and on what it opens are made under base::domain_lock.
class inner_domain {
 public:
  /// Takes an info that core::get_info returned.
  static base::result<std::unique_ptr<inner_domain>> open(unique_info info);
  /// As open, in a fabric that is open already: one of the core provider's for this info, or a
  /// test's. `random` is what keys are drawn from where the core has none of its own, `libfabric`
  /// the release that the fabric is of; 0: the process's.
  static base::result<std::unique_ptr<inner_domain>> open_over(unique_fid<fid_fabric> fabric,
                                                               unique_info info,
                                                               base::random_source random = {},
                                                               std::uint32_t libfabric = 0);
  /// A domain as `info` has it, in a fabric that outlives it, for an application that uses the
  /// core's domain directly.
  static base::result<std::unique_ptr<inner_domain>> open_in(fid_fabric* fabric, unique_info info);
  /// One more, on another NIC, for what `first` carries; that outlives it.
  static base::result<std::unique_ptr<inner_domain>> open_beside(const inner_domain& first,
                                                                 unique_info info);

  /// 0, or -FI_EBUSY where the application still has something of the core's open. Nothing but the
  /// destructor may follow a 0.
  int close() noexcept;

  [[nodiscard]] fi_info& info() const noexcept { return *info_; }
  [[nodiscard]] fid_fabric* fabric() const noexcept { return in_; }
  [[nodiscard]] fid_domain* domain() const noexcept { return domain_.get(); }

  /// Whether buffers given to core operations need a descriptor (verbs: yes, tcp: no).
  [[nodiscard]] bool needs_local_mr() const noexcept { return needs_local_mr_; }

  /// Registers [base, base + length) for `access` (FI_SEND ... FI_REMOTE_WRITE). Peers address it
  /// by virtual address, and by a key that a NIC has chosen, or over tcp 63 random bits.
  /// -FI_ENOMEM: the NIC or RLIMIT_MEMLOCK refuses more.
  base::result<inner_mr> register_memory(void* base, std::size_t length, std::uint64_t access);

  /// Whether an RDMA NIC carries the data.
  [[nodiscard]] bool over_rdma() const noexcept { return over_rdma_; }
  /// See core::reads_safely.
  [[nodiscard]] bool reads_safely() const noexcept {
    return core::reads_safely(over_rdma_, libfabric());
  }
  /// Whether register_dmabuf can be asked at all: over_rdma, and a libfabric from 1.20 on.
  [[nodiscard]] bool takes_dmabufs() const noexcept;

  /// Registers device memory; local operations and peers address it by device address. The core
  /// does not know it from host memory: it would send a short message inline, reading the address
  /// with the CPU, so operations that send from it must be longer than the core's inject size.
  /// Errors are libfabric's and the NIC driver's, see reg/registration_failure.hpp.
  base::result<inner_mr> register_dmabuf(const dmabuf_range& range, std::uint64_t access);

 private:
  inner_domain() = default;
  base::result<void> open_domain(fid_fabric* fabric);
  void ask_for_addresses_and_keys() noexcept;
  [[nodiscard]] std::uint32_t libfabric() const noexcept {
    return libfabric_ != 0 ? libfabric_ : fi_version();
  }
  [[nodiscard]] bool chooses_keys() const noexcept;

  unique_info info_;
  unique_fid<fid_fabric> fabric_;  // its own; null: it is in another's
  fid_fabric* in_ = nullptr;
  base::random_source random_;
  unique_fid<fid_domain> domain_;
  bool needs_local_mr_ = false;
  bool over_rdma_ = false;
  std::uint32_t libfabric_ = 0;  // that the fabric is of; 0: the process's
};

}  // namespace gaudi::core
