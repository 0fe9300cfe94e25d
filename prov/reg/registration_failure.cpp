// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/registration_failure.hpp"

#include <rdma/fi_errno.h>

#include <cerrno>

namespace gaudi::reg {

registration_failure diagnose_old_libfabric() noexcept {
  return {failure_cause::old_libfabric, "libfabric takes dma-bufs only from release 1.20 on",
          "let the application run with a newer libfabric", true};
}

registration_failure diagnose(int code) noexcept {
  switch (-code) {
    case FI_ENOSYS:
      return {failure_cause::no_kernel_support, "libfabric found no dma-buf support in the kernel",
              "ib_core must be loaded and /proc/kallsyms must show ib_umem_dmabuf_get (Linux 5.12 "
              "and later), and FI_VERBS_USE_DMABUF must not be 0",
              true};
    case FI_EOPNOTSUPP:
      return {failure_cause::nic_driver, "the NIC's driver does not register dma-bufs",
              "use a NIC and rdma-core release whose driver does", true};
    case EPERM:
    case EREMOTEIO:
      return {failure_cause::peer_to_peer,
              "the kernel allows no peer-to-peer transfer between this NIC and this Gaudi",
              "put both below one PCIe switch or root complex, and turn ACS redirection off", true};
    case EINVAL:
      return {failure_cause::small_bar,
              "the NIC's driver refused the range, as it does when the Gaudi's BAR does not show "
              "all of its HBM",
              "enable a BAR of full size (above 4G decoding, resizable BAR) in the firmware",
              false};
    case EMFILE:
    case ENFILE:
      return {failure_cause::descriptors, "no file descriptor was left", "raise RLIMIT_NOFILE",
              false};
    case ENOMEM:
      return {failure_cause::locked_memory, "the NIC or the memory lock limit has no room",
              "raise RLIMIT_MEMLOCK", false};
    default:
      return {failure_cause::other, "the registration failed", "look at the kernel's log (dmesg)",
              false};
  }
}

registration_failure diagnose_no_nic(bool there_is_one) noexcept {
  if (there_is_one)
    return {failure_cause::other, "FI_GAUDI_DMABUF=off keeps it from the NIC",
            "leave FI_GAUDI_DMABUF at auto", true};
  return {failure_cause::other, "only an RDMA NIC reaches it", "let core verbs carry the data",
          true};
}

registration_failure diagnose_imported(int code) noexcept {
  if (code != -FI_EINVAL) return diagnose(code);
  return {failure_cause::other, "the NIC's driver refused the descriptor or the range",
          "give a dma-buf's descriptor, offset and length inside it, and a base_addr at the "
          "beginning of a page",
          false};
}

registration_failure diagnose_no_export(int code) noexcept {
  switch (-code) {
    case FI_EOPNOTSUPP:
      return {failure_cause::no_export, "the Gaudi's driver does not export its memory as dma-buf",
              "use a habanalabs driver newer than Linux 6.1's", true};
    case EMFILE:
    case ENFILE:
      return diagnose(code);
    default:
      return {failure_cause::no_export, "the Gaudi's driver failed to export its memory as dma-buf",
              "look at the kernel's log (dmesg)", false};
  }
}

}  // namespace gaudi::reg
