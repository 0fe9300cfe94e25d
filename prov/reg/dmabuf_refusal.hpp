// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::reg {

/// What stands between a NIC and a Gaudi's memory.
enum class refusal_cause {
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
struct dmabuf_refusal {
  refusal_cause cause;
  const char* reason;  ///< in words
  const char* remedy;  ///< what the user can do
  bool final;          ///< asking again in this process is of no use
};

/// libfabric before 1.20 has no dma-bufs.
dmabuf_refusal explain_old_libfabric() noexcept;

/// What an error (-FI_E*) of registering a dma-buf means; codes as the kernel's RDMA core and
/// libfabric's verbs provider give them.
dmabuf_refusal explain_refusal(int code) noexcept;

/// None is asked: there is no RDMA NIC, or it may not have dma-bufs.
dmabuf_refusal explain_no_nic(bool there_is_one) noexcept;

/// As explain_refusal, for a dma-buf that the application brought, of which nothing is known here.
dmabuf_refusal explain_refusal_of_given(int code) noexcept;

/// What an error of exporting device memory as dma-buf means.
dmabuf_refusal explain_no_export(int code) noexcept;

}  // namespace gaudi::reg
