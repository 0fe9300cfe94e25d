// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::reg {

/// Why a NIC did not take a dma-buf.
struct dmabuf_refusal {
  const char* reason;  ///< in words
  const char* remedy;  ///< what the user can do
  bool final;          ///< asking again in this process is of no use
};

/// What an error (-FI_E*) of registering a dma-buf means; codes as the kernel's RDMA core and
/// libfabric's verbs provider give them.
dmabuf_refusal explain_refusal(int code) noexcept;

/// What an error of exporting device memory as dma-buf means.
dmabuf_refusal explain_no_export(int code) noexcept;

}  // namespace gaudi::reg
