// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/dmabuf_registrar.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>

#include "base/log.hpp"

namespace gaudi::reg {
namespace {

constexpr std::uint64_t page_size = 4096;
constexpr std::uint64_t local_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

}  // namespace

dmabuf_attempt try_to_register(core::inner_domain& core, device::device& on,
                               const device::location& where, std::uint64_t access) {
  if (!core.takes_dmabufs()) return {{}, -FI_EOPNOTSUPP, explain_old_libfabric()};
  const auto dmabuf = on.export_dmabuf(where.base, where.len);
  if (!dmabuf) return {{}, dmabuf.code(), explain_no_export(dmabuf.code())};
  // Whole pages, as the exporter hands them out; allocations begin on one, adopted ranges may not.
  const std::uint64_t before = dmabuf->offset % page_size;
  const std::uint64_t first = dmabuf->offset - before;
  const std::uint64_t whole = (before + where.len + page_size - 1) & ~(page_size - 1);
  auto mr = core.register_dmabuf({.fd = dmabuf->fd.get(),
                                  .offset = first,
                                  .length = std::min(whole, where.map_len - first),
                                  .base_addr = dmabuf->base_addr},
                                 local_access | (access & remote_access));
  if (!mr) return {{}, mr.code(), explain_refusal(mr.code())};
  return {*std::move(mr), 0};
}

base::result<dmabuf_registrar::registration> dmabuf_registrar::obtain(device::device& on,
                                                                      std::uint64_t address,
                                                                      std::uint64_t access) {
  if (choice_ == base::dmabuf_choice::off) return registration();
  if (!core_.over_rdma()) {
    if (choice_ == base::dmabuf_choice::automatic) return registration();
    GAUDI_WARN(MR, "FI_GAUDI_DMABUF=on, but only an RDMA NIC (core verbs) can do that\n");
    return base::error{-FI_EOPNOTSUPP};
  }
  if (const auto known = refused_for_good_.find(&on); known != refused_for_good_.end())
    return without(known->second);

  const auto where = on.find(address, 1);
  if (!where) return where.failure();
  const name wanted{where->generation, access & remote_access};
  if (const auto found = known_.find(wanted); found != known_.end()) {
    if (auto same = found->second.lock()) return same;
  }
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  auto tried = try_to_register(core_, on, *where, wanted.second);
  if (tried.code != 0) return refused(on, tried.code, tried.why);
  auto made = std::make_shared<const core::inner_mr>(std::move(tried.mr));
  known_[wanted] = made;
  return registration(std::move(made));
}

base::result<dmabuf_registrar::registration> dmabuf_registrar::refused(device::device& on, int code,
                                                                       const dmabuf_refusal& why) {
  if (why.final) refused_for_good_.emplace(&on, code);
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    GAUDI_WARN(
        MR, "NIC %s cannot read and write the memory of %s %s: %s (%s). %s. To change that: %s.\n",
        core_.info().domain_attr->name, on.attributes().name.c_str(),
        on.attributes().bus_id.c_str(), why.reason, fi_strerror(-code),
        choice_ == base::dmabuf_choice::on ? "FI_GAUDI_DMABUF=on forbids to stage it"
                                           : "Its data goes through host memory instead",
        why.remedy);
  }
  return without(code);
}

base::result<dmabuf_registrar::registration> dmabuf_registrar::without(int code) noexcept {
  ++refusals_;
  if (choice_ == base::dmabuf_choice::on) return base::error{code};
  return registration();
}

}  // namespace gaudi::reg
