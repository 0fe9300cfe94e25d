// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of a device that is reset, hangs or is gone.
#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "device/device.hpp"
#include "device/device_loss_epoch.hpp"

namespace gaudi::device {

namespace {

/// For a warning: what makes a lost device usable again.
const char* what_next(bool owned, bool is_synapses) noexcept {
  if (owned)
    return ", soon, as the driver may kill processes that keep it open; what needs device memory "
           "then opens it anew";
  return is_synapses ? ", then have Synapse release and acquire it (synDeviceRelease, "
                       "synDeviceAcquire): it is found by itself"
                     : ", then close the application's descriptor of it and open it anew: it is "
                       "found by itself";
}

}  // namespace

int device::lose(int code, const char* config) noexcept {
  const int lasting = code == -FI_ENODEV ? -FI_ENODEV : -FI_EIO;
  int before = 0;
  if (!lost_.compare_exchange_strong(before, lasting, std::memory_order_acq_rel)) return before;
  GAUDI_WARN(CORE,
             "%s %s is lost: %s. Whatever is under way on it fails (%s). Close its memory regions "
             "and free its memory%s. The kernel's log has the cause.\n",
             attributes_.name.c_str(), attributes_.bus_id.c_str(), config, fi_strerror(-lasting),
             what_next(attributes_.owned, synapse_ != nullptr));
  memory_.abandon();
  loss_observers_.notify_last([](loss_observer& one) { one.device_lost(); });
  if (fd_.abandon())
    opening_.end();
  else
    GAUDI_WARN(CORE, "%s cannot be closed yet: no file descriptor is left (RLIMIT_NOFILE)\n",
               attributes_.bus_id.c_str());
  device_loss_epoch::tell();
  return lasting;
}

int device::cause_of(int code) noexcept {
  if (const int already = lost(); already != 0) return already;
  switch (code) {
    case -FI_EBUSY:  // in reset, or about to be
      return lose(code, "its driver resets it");
    case -FI_ENODEV:
      return lose(code, "it was removed");
    default:
      return code;
  }
}

}  // namespace gaudi::device
