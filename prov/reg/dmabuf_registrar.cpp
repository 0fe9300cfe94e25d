// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/dmabuf_registrar.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <boost/container/static_vector.hpp>
#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace gaudi::reg {
namespace {

constexpr std::uint64_t page_size = 4096;
constexpr std::uint64_t local_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

dmabuf_attempt try_to_register_given(core::inner_domain& core, const core::dmabuf_range& part,
                                     std::uint64_t access) {
  if (!core.takes_dmabufs()) return {{}, -FI_EOPNOTSUPP, diagnose_old_libfabric()};
  auto mr = core.register_dmabuf(part, local_access | access);
  if (!mr) return {{}, mr.code(), diagnose_imported(mr.code())};
  return {*std::move(mr), 0};
}

// The window as if it were an allocation.
device::location cut(const device::location& where, const window& part) noexcept {
  device::location one = where;
  one.base += part.offset;
  one.len = part.length;
  return one;
}

}  // namespace

base::result<exported_allocation> export_allocation(device::device& on,
                                                    const device::location& where) {
  auto dmabuf = on.export_dmabuf(where.base, where.len);
  if (!dmabuf) return dmabuf.failure();
  // Whole pages, as the exporter hands them out; allocations begin on one, adopted ranges may not.
  const std::uint64_t before = dmabuf->offset % page_size;
  const std::uint64_t first = dmabuf->offset - before;
  const std::uint64_t whole = (before + where.len + page_size - 1) & ~(page_size - 1);
  const core::dmabuf_range range{.fd = dmabuf->fd.get(),
                                 .offset = first,
                                 .length = std::min(whole, where.map_len - first),
                                 .base_addr = dmabuf->base_addr};
  return exported_allocation{std::move(dmabuf->fd), range};
}

dmabuf_attempt try_to_register(core::inner_domain& core, device::device& on,
                               const device::location& where, std::uint64_t access) {
  if (!core.takes_dmabufs()) return {{}, -FI_EOPNOTSUPP, diagnose_old_libfabric()};
  const auto exported = export_allocation(on, where);
  if (!exported) return {{}, exported.code(), diagnose_no_export(exported.code())};
  auto mr = core.register_dmabuf(exported->range, local_access | (access & remote_access));
  if (!mr) return {{}, mr.code(), diagnose(mr.code())};
  return {*std::move(mr), 0};
}

dmabuf_registrar::~dmabuf_registrar() {
  for (known_device& d : devices_) {
    d.owner->remove_observer(static_cast<device::loss_observer&>(d));
    d.owner->memory().remove_observer(static_cast<device::free_observer&>(*this));
  }
}

base::result<registration> dmabuf_registrar::obtain(device::device& on,
                                                    const device::location& where,
                                                    std::uint64_t length, std::uint64_t access) {
  known_device& owner = known(on);
  if (choice_ == base::dmabuf_choice::off) return registration();
  if (!over_rdma_) {
    if (choice_ == base::dmabuf_choice::automatic) return registration();
    GAUDI_WARN(MR, "FI_GAUDI_DMABUF=on, but only an RDMA NIC (core verbs) can do that\n");
    return base::error{-FI_EOPNOTSUPP};
  }
  if (owner.refused != 0) return without(owner, owner.refused);

  const window part = window_for(where.len, where.offset, length, windows_);
  const cache_key key{where.allocation_id, access & remote_access, part.number};
  if (auto same = part.number == 0 ? cache_.find(key, &owner.cached)
                                   : find(owner, key, part, where, length))
    return same;
  return make(owner, key, cut(where, part));
}

// A wider window serves as well: a pool may have been registered as a whole.
registration dmabuf_registrar::find(known_device& owner, const cache_key& key, const window& part,
                                    const device::location& where, std::uint64_t length) noexcept {
  boost::container::static_vector<cache_key, 64> names{key};
  for (window w = part; w.number != 0;) {
    w = window_for(where.len, where.offset, length, windows_, w.shift + 1);
    names.push_back({key.allocation_id, key.access, w.number});
  }
  return cache_.find_any({names.data(), names.size()}, &owner.cached);
}

base::result<registration> dmabuf_registrar::make(known_device& owner, const cache_key& key,
                                                  const device::location& part) {
  device::device& on = *owner.owner;
  auto tried = try_with_room([&] { return try_to_register(core_, on, part, key.access); }, &on);
  if (tried.code != 0) return refused(owner, tried.code, tried.why);
  owner.refused_ranges = 0;
  auto made = cache_.add(key, part.len, std::move(tried.mr), &owner.cached);
  // A loss that came meanwhile has not seen it.
  if (on.lost() != 0) owner.device_lost();
  return made;
}

base::result<registration> dmabuf_registrar::obtain(const core::dmabuf_range& part,
                                                    std::uint64_t access, retention kept) {
  if (choice_ == base::dmabuf_choice::off || !over_rdma_)
    return refused(part, -FI_EOPNOTSUPP, diagnose_no_nic(over_rdma_));
  const auto number = given_.number_of(part);
  if (!number) return number.failure();
  const cache_key key{*number, access & remote_access};
  if (auto same = cache_.find(key)) return same;
  given_.prune([&](std::uint64_t n) { return n == *number || cache_.knows(n); });
  auto tried =
      try_with_room([&] { return try_to_register_given(core_, part, key.access); }, nullptr);
  if (tried.code != 0) return refused(part, tried.code, tried.why);
  return cache_.add(key, part.length, std::move(tried.mr), nullptr, kept);
}

registration_counters dmabuf_registrar::counted(const device::device& on) const noexcept {
  for (const known_device& d : devices_) {
    if (d.owner.get() == &on) return {cache_.counters(d.cached), d.refusals, d.last_refusal};
  }
  return {};
}

dmabuf_registrar::known_device& dmabuf_registrar::find_or_keep(device::device& on) {
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const known_device& d) { return d.owner.get() == &on; });
  if (found != devices_.end()) return *(last_known_ = &*found);
  known_device& added = devices_.emplace_back(cache_);
  added.owner = on.shared_from_this();
  try {
    watch(added);
  } catch (...) {
    devices_.pop_back();
    throw;
  }
  return *(last_known_ = &added);
}

void dmabuf_registrar::watch(known_device& added) {
  auto& frees = static_cast<device::free_observer&>(*this);
  added.owner->memory().add_observer(frees);
  try {
    added.owner->add_observer(static_cast<device::loss_observer&>(added));
  } catch (...) {
    added.owner->memory().remove_observer(frees);
    throw;
  }
}

// What is kept for later must not be what makes the present fail. The NIC keeps a dma-buf, not its
// descriptor, so that of `exporter` are the first to go where they are what is short, once.
template <class Attempt>
dmabuf_attempt dmabuf_registrar::try_with_room(Attempt&& attempt, device::device* exporter) {
  for (;;) {
    auto tried = attempt();
    const bool no_descriptor = tried.code == -EMFILE || tried.code == -ENFILE;
    if (no_descriptor && exporter && std::exchange(exporter, nullptr)->memory().close_dmabufs())
      continue;
    const bool scarce = no_descriptor || tried.code == -FI_ENOMEM;
    if (!scarce || !cache_.evict_oldest()) return tried;
  }
}

base::error dmabuf_registrar::refused(const core::dmabuf_range& given, int code,
                                      const registration_failure& why) {
  ++seen_.refusals;
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    GAUDI_WARN(
        MR,
        "NIC %s did not register bytes 0x%lx+%zu of a dma-buf of the application's: %s (%s). "
        "To change that: %s.\n",
        core_.info().domain_attr->name, given.offset, given.length, why.reason, fi_strerror(-code),
        why.remedy);
  }
  return base::error{code};
}

base::result<registration> dmabuf_registrar::refused(known_device& by, int code,
                                                     const registration_failure& why) {
  // One range may be refused for what it is, but not the first ones of a device, all of them.
  constexpr unsigned max_refused_ranges = 3;
  const bool is_range = why.cause == failure_cause::small_bar;
  if (is_range) ++by.refused_ranges;
  if (is_range ? by.cached.made == 0 && by.refused_ranges >= max_refused_ranges : why.final)
    by.refused = code;
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    GAUDI_WARN(
        MR, "NIC %s cannot read and write the memory of %s %s: %s (%s). %s. To change that: %s.\n",
        core_.info().domain_attr->name, by.owner->attributes().name.c_str(),
        by.owner->attributes().bus_id.c_str(), why.reason, fi_strerror(-code),
        choice_ == base::dmabuf_choice::on ? "FI_GAUDI_DMABUF=on forbids to stage it"
                                           : "Its data goes through host memory instead",
        why.remedy);
  }
  return without(by, code);
}

base::result<registration> dmabuf_registrar::without(known_device& owner, int code) noexcept {
  ++seen_.refusals;
  ++owner.refusals;
  owner.last_refusal = code;
  if (choice_ == base::dmabuf_choice::on) return base::error{code};
  return registration();
}

}  // namespace gaudi::reg
