// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/open_failures.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>

#include <cerrno>

#include "base/log.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::device {

using base::error;

namespace {

/// Without a descriptor the library finds no device, and says that there is none.
bool is_out_of_descriptors() noexcept {
  const base::scoped_fd any(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return !any && (errno == EMFILE || errno == ENFILE);
}

error refuse_for_descriptors(const std::string& which) {
  GAUDI_WARN(CORE,
             "failed to open %s: no file descriptor is left (raise RLIMIT_NOFILE, ulimit -n, or "
             "have the application close some).\n",
             which.c_str());
  return error{-EMFILE};
}

}  // namespace

bool is_absent(int code) noexcept {
  // In this order: a bus id that the library does not know, a module id that no control node has.
  return code == -FI_ENODEV || code == -FI_ENOENT || code == -FI_EINVAL || code == -FI_EBADF ||
         code == -ENXIO;
}

error refuse(const std::string& which, int code, std::chrono::milliseconds timeout) {
  if (is_absent(code)) {
    if (is_out_of_descriptors()) return refuse_for_descriptors(which);
    GAUDI_WARN(CORE,
               "%s is not a Gaudi of this machine: correct FI_GAUDI_DEVICE, or load the habanalabs "
               "driver.\n",
               which.c_str());
    return error{-FI_ENODEV};
  }
  switch (code) {
    case -FI_EBUSY:
      GAUDI_WARN(CORE,
                 "%s is in use by another process: end that one or choose another device with "
                 "FI_GAUDI_DEVICE.\n",
                 which.c_str());
      return error{code};
    case -FI_EAGAIN:
      GAUDI_WARN(
          CORE,
          "%s is still in reset after %lld ms: try again later; if it stays so, see the kernel's "
          "log.\n",
          which.c_str(), static_cast<long long>(timeout.count()));
      return error{code};
    case -EMFILE:
    case -ENFILE:
      return refuse_for_descriptors(which);
    case -EPERM:
    case -FI_EACCES:
      GAUDI_WARN(
          CORE,
          "failed to open %s: permission denied: add the user to the group of its node under "
          "/dev, or reset the device if it has malfunctioned.\n",
          which.c_str());
      return error{code};
    default:
      GAUDI_WARN(CORE, "failed to open %s: %s; see the kernel's log.\n", which.c_str(),
                 fi_strerror(-code));
      return error{code};
  }
}

error refuse_parents(const std::string& bus_id) {
  GAUDI_WARN(CORE,
             "device %s is used by the process that this one came from by fork, and its descriptor "
             "stands for the same memory and queues: open or acquire a device after fork().\n",
             bus_id.c_str());
  return error{-FI_EBUSY};
}

error refuse_control(int fd) {
  GAUDI_WARN(CORE,
             "cannot adopt descriptor %d: it is of a Gaudi's control node, which only tells of the "
             "device. Give the descriptor that hlthunk_open gave.\n",
             fd);
  return error{-FI_EINVAL};
}

}  // namespace gaudi::device
