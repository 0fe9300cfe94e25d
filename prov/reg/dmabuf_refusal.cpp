// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/dmabuf_refusal.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>

namespace gaudi::reg {

dmabuf_refusal explain_refusal(int code) noexcept {
  switch (-code) {
    case FI_ENOSYS:
      return {"libfabric found no dma-buf support in the kernel",
              "ib_core must be loaded and /proc/kallsyms must show ib_umem_dmabuf_get (Linux 5.12 "
              "and later), and FI_VERBS_USE_DMABUF must not be 0",
              true};
    case FI_EOPNOTSUPP:
      return {"the NIC's driver does not register dma-bufs",
              "use a NIC and rdma-core release whose driver does", true};
    case EPERM:
    case EREMOTEIO:
      return {"the kernel allows no peer-to-peer transfer between this NIC and this Gaudi",
              "put both below one PCIe switch or root complex, and turn ACS redirection off", true};
    case EINVAL:
      return {
          "the NIC's driver refused the range, as it does when the Gaudi's BAR does not show "
          "all of its HBM",
          "enable a BAR of full size (above 4G decoding, resizable BAR) in the firmware", true};
    case EMFILE:
    case ENFILE:
      return {"no file descriptor was left", "raise RLIMIT_NOFILE", false};
    case ENOMEM:
      return {"the NIC or the memory lock limit has no room", "raise RLIMIT_MEMLOCK", false};
    default:
      return {"the registration failed", "look at the kernel's log (dmesg)", false};
  }
}

dmabuf_refusal explain_no_export(int code) noexcept {
  if (code == -FI_EOPNOTSUPP)
    return {"the Gaudi's driver does not export its memory as dma-buf",
            "use a habanalabs driver newer than Linux 6.1's", true};
  return {"the Gaudi's driver failed to export its memory as dma-buf",
          "look at the kernel's log (dmesg)", false};
}

}  // namespace gaudi::reg
