// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/write_flush.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>

#include "base/log.hpp"

namespace gaudi::reg {
namespace {

/// Whether the library, the driver or the device has no such flush, and so never will.
bool has_no_flush(int code) noexcept {
  return code == -FI_ENOSYS || code == -FI_EOPNOTSUPP;
}

}  // namespace

void write_flush::forget_lost() noexcept {
  devices_.remove_if([](const known_device& one) { return one.page.device().lost() != 0; });
}

write_flush::known_device& write_flush::known(device::device& on) {
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const known_device& one) {
    return &one.page.device() == &on;
  });
  return found != devices_.end() ? *found : devices_.emplace_back(on);
}

bool write_flush::reads_back(const device::device& on) const noexcept {
  if (choice_ != base::flush_choice::automatic) return choice_ == base::flush_choice::read;
  const auto found = std::find_if(devices_.begin(), devices_.end(), [&](const known_device& one) {
    return &one.page.device() == &on;
  });
  return found == devices_.end() || found->way == method::undecided || found->way == method::read;
}

base::result<void> write_flush::flush(device::device& on) {
  if (!active()) return {};
  if (const int gone = on.lost(); gone != 0) return base::error{gone};
  known_device& at = known(on);
  if (at.way == method::none) return {};
  const auto done = by_choice(at);
  // What failed because of a loss is told as one.
  if (!done && on.lost() != 0) return base::error{on.lost()};
  if (done && at.way != method::none) ++count_;
  return done;
}

base::result<void> write_flush::by_choice(known_device& at) {
  if (choice_ == base::flush_choice::read) return read_back(at);
  if (choice_ == base::flush_choice::driver || at.way == method::driver) return ask_driver(at);
  return by_whatever_works(at);
}

base::result<void> write_flush::by_whatever_works(known_device& at) {
  const auto read = read_back(at);
  if (read) {
    at.way = method::read;
    at.failed_reads = 0;
    return {};
  }
  if (const int gone = at.page.device().lost(); gone != 0) return base::error{gone};
  const auto asked = ask_driver(at);
  if (!nic_cannot(at)) return asked ? asked : read;
  if (asked) {
    at.way = method::driver;
    GAUDI_INFO(MR, "the NIC cannot read back from %s (%s): its driver flushes from now on\n",
               at.page.device().attributes().bus_id.c_str(), fi_strerror(-read.code()));
    return {};
  }
  if (!has_no_flush(asked.code())) return asked;
  at.way = method::none;
  warn_unflushed(at, read.code(), asked.code());
  return {};
}

// What failed now may work at the next call: only what lasts decides.
bool write_flush::nic_cannot(known_device& at) const noexcept {
  constexpr unsigned max_failed_reads = 3;
  return ++at.failed_reads >= max_failed_reads || at.page.failed_for_good() || !loop_.may_connect();
}

base::result<void> write_flush::ask_driver(const known_device& at) {
  device::device& on = at.page.device();
  const auto done = on.thunk().flush_pci_writes(on.fd());
  return done ? done : base::error{on.cause_of(done.code())};
}

base::result<void> write_flush::read_back(known_device& at) {
  if (const auto ready = at.page.prepare(loop_.core()); !ready) return ready;
  if (const auto ready = prepare_landing(); !ready) return ready;
  return at.page.read(loop_, landing_.data(), landing_mr_.descriptor());
}

base::result<void> write_flush::prepare_landing() {
  if (landing_mr_) return {};
  auto landing = loop_.core().register_memory(landing_.data(), landing_.size(), FI_READ);
  if (!landing) return landing.failure();
  landing_mr_ = *std::move(landing);
  return {};
}

void write_flush::warn_unflushed(const known_device& at, int by_reading,
                                 int by_driver) const noexcept {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  GAUDI_WARN(
      MR,
      "what NIC %s writes to Gaudi %s is reported without a flush: neither can the NIC read it "
      "back (%s) nor the driver flush it (%s). The Gaudi's engines may see old data for a moment. "
      "Set FI_GAUDI_FLUSH=off to accept that, or FI_GAUDI_DMABUF=off to avoid it.\n",
      loop_.core().info().domain_attr->name, at.page.device().attributes().bus_id.c_str(),
      fi_strerror(-by_reading), fi_strerror(-by_driver));
}

}  // namespace gaudi::reg
