// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::reg {

/// What stands between a NIC and a Gaudi's memory.
enum class failure_cause {
  old_libfabric,
  no_kernel_support,
  nic_driver,
  peer_to_peer,
  small_bar,
  descriptors,
  locked_memory,
  no_export,
  other,
};

/// Why a NIC did not take a dma-buf.
struct registration_failure {
  failure_cause cause;
  const char* reason;  ///< in words
  const char* remedy;  ///< what the user can do
  bool final;          ///< asking again in this process is of no use
};

/// libfabric before 1.20 has no dma-bufs.
registration_failure diagnose_old_libfabric() noexcept;

/// What an error (-FI_E*) of registering a dma-buf means; codes as the kernel's RDMA core and
/// libfabric's verbs provider give them.
registration_failure diagnose(int code) noexcept;

/// None is asked: there is no RDMA NIC, or it may not have dma-bufs.
registration_failure diagnose_no_nic(bool there_is_one) noexcept;

/// As diagnose, for a dma-buf that the application brought, of which nothing is known here.
registration_failure diagnose_imported(int code) noexcept;

/// What an error of exporting device memory as dma-buf means.
registration_failure diagnose_no_export(int code) noexcept;

}  // namespace gaudi::reg
