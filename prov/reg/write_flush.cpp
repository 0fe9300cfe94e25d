// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/write_flush.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>

#include "base/log.hpp"

namespace gaudi::reg {
namespace {

/// In a row, before a NIC that may yet read is left alone for a while.
constexpr unsigned max_failed_reads = 3;

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
  return found == devices_.end() || found->way == method::read;
}

base::result<void> write_flush::flush(device::device& on) {
  if (!active()) return {};
  if (const int gone = on.lost(); gone != 0) return base::error{gone};
  known_device& at = known(on);
  reconsider(at);
  if (at.way == method::none) return {};
  const auto done = by_choice(at);
  // What failed because of a loss is told as one.
  if (!done && on.lost() != 0) return base::error{on.lost()};
  if (done && at.way != method::none) ++*count_;
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
    at.failed_reads = 0;
    at.pause = min_pause;
    return {};
  }
  if (const int gone = at.page.device().lost(); gone != 0) return base::error{gone};
  const auto asked = ask_driver(at);
  ++at.failed_reads;
  if (!nic_cannot(at) && at.failed_reads < max_failed_reads) return asked ? asked : read;
  if (asked) {
    settle_on(at, method::driver);
    GAUDI_INFO(MR, "the NIC %s read back from %s (%s): its driver flushes from now on\n",
               nic_cannot(at) ? "cannot" : "does not", at.page.device().attributes().bus_id.c_str(),
               fi_strerror(-read.code()));
    return {};
  }
  if (!has_no_flush(asked.code())) return asked;
  settle_on(at, method::none);
  warn_unflushed(at, read.code(), asked.code());
  return {};
}

bool write_flush::nic_cannot(const known_device& at) const noexcept {
  return at.page.failed_for_good() || loop_.cannot_connect();
}

// A link that is down, or a NIC without memory for another region, is so for a while.
void write_flush::settle_on(known_device& at, method way) const noexcept {
  at.way = way;
  if (nic_cannot(at)) {
    at.next_try = base::clock::time_point::max();
    return;
  }
  at.next_try = clock_.now() + at.pause;
  at.pause = std::min(2 * at.pause, max_pause);
}

// One failure more is then enough to go back to the way that works.
void write_flush::reconsider(known_device& at) const noexcept {
  if (at.next_try == base::clock::time_point::max() || clock_.now() < at.next_try) return;
  at.next_try = base::clock::time_point::max();
  at.way = method::read;
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
