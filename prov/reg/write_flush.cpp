// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/write_flush.hpp"

#include <rdma/fi_errno.h>

#include <atomic>
#include <utility>

#include "base/log.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::reg {
namespace {

constexpr std::uint64_t page_size = 4096;

}  // namespace

write_flush::~write_flush() {
  for (auto& [on, p] : pages_) give_back(p);
}

void write_flush::give_back(page& p) noexcept {
  p.mr = {};  // before the memory
  static_cast<void>(p.on->free(p.address));
}

void write_flush::forget_lost() noexcept {
  for (auto at = pages_.begin(); at != pages_.end();) {
    const auto known = at++;
    if (known->first->lost() == 0) continue;
    give_back(known->second);
    pages_.erase(known);
  }
}

base::result<void> write_flush::flush(device::device& on) {
  if (!active()) return {};
  if (const int gone = on.lost(); gone != 0) return base::error{gone};
  const auto done = by_choice(on);
  if (done && active()) ++count_;
  return done;
}

base::result<void> write_flush::by_choice(device::device& on) {
  if (choice_ == base::flush_choice::read) return read_back(on);
  if (choice_ == base::flush_choice::driver) return on.thunk().flush_pci_writes(on.fd());
  return by_whatever_works(on);
}

base::result<void> write_flush::by_whatever_works(device::device& on) {
  const auto read = read_back(on);
  if (read) return {};
  const auto asked = on.thunk().flush_pci_writes(on.fd());
  if (!asked) {
    give_up(read.code(), asked.code());
    return {};
  }
  // Once and for all: what failed is not tried again for each message.
  choice_ = base::flush_choice::driver;
  GAUDI_INFO(MR, "the NIC cannot read back from the Gaudi (%s): its driver flushes from now on\n",
             fi_strerror(-read.code()));
  return {};
}

base::result<void> write_flush::read_back(device::device& on) {
  const auto found = page_on(on);
  if (!found) return found.failure();
  if (!landing_mr_) {
    auto landing = loop_.core().register_memory(landing_.data(), landing_.size(), FI_READ);
    if (!landing) return landing.failure();
    landing_mr_ = *std::move(landing);
  }
  return loop_.read(landing_.data(), landing_mr_.descriptor(), 1, (*found)->address,
                    (*found)->mr.key());
}

base::result<write_flush::page*> write_flush::page_on(device::device& on) {
  if (const auto known = pages_.find(&on); known != pages_.end()) return &known->second;
  const auto address = on.allocate(page_size);
  if (!address) return address.failure();
  const auto where = on.find(*address, page_size);
  auto tried = where ? try_to_register(loop_.core(), on, *where, FI_REMOTE_READ)
                     : dmabuf_attempt{{}, where.code()};
  if (tried.code != 0) {
    static_cast<void>(on.free(*address));
    return base::error{tried.code};
  }
  page& added = pages_[&on];
  added = {on.shared_from_this(), *address, std::move(tried.mr)};
  return &added;
}

void write_flush::give_up(int by_reading, int by_driver) noexcept {
  choice_ = base::flush_choice::off;
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  GAUDI_WARN(
      MR,
      "what NIC %s writes to a Gaudi is reported without a flush: neither can the NIC read it back "
      "(%s) nor the driver flush it (%s). The Gaudi's engines may see old data for a moment. Set "
      "FI_GAUDI_FLUSH=off to accept that, or FI_GAUDI_DMABUF=off to avoid it.\n",
      loop_.core().info().domain_attr->name, fi_strerror(-by_reading), fi_strerror(-by_driver));
}

}  // namespace gaudi::reg
