// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/rdm_ext_ops.hpp"

#include <rdma/fi_errno.h>

#include "base/path_reasons.hpp"
#include "copy/copy_queues.hpp"
#include "fi/common/domain_base.hpp"
#include "fi/common/ext_ops.hpp"
#include "fi/common/guard.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/nic_copy.hpp"

namespace gaudi::fi {
namespace {

int path_stats(fid_domain* d, fi_gaudi_path_stats* stats) noexcept {
  domain& self = domain::of(d);
  const base::scoped_domain_lock lock(self.lock());
  const proto::path_counters& c = self.paths();
  *stats = {.eager_ops = c.eager_ops,
            .eager_bytes = c.eager_bytes,
            .direct_ops = c.direct_ops,
            .direct_bytes = c.direct_bytes,
            .staged_ops = c.staged_ops,
            .staged_bytes = c.staged_bytes,
            .zero_copy_ops = c.zero_copy_ops,
            .zero_copy_bytes = c.zero_copy_bytes,
            .refused_registrations = self.dmabufs().refusals(),
            .flushes = self.flush().count(),
            .cma_ops = c.cma_ops,
            .cma_bytes = c.cma_bytes,
            .shm_ops = c.shm_ops,
            .engine_ops = c.engine_ops,
            .engine_bytes = c.engine_bytes,
            .dmabuf_ipc_ops = c.dmabuf_ipc_ops,
            .dmabuf_ipc_bytes = c.dmabuf_ipc_bytes};
  return 0;
}

int path_reasons(fid_domain* d, fi_gaudi_path_reason* reasons, std::uint64_t* count) noexcept {
  domain& self = domain::of(d);
  const base::scoped_domain_lock lock(self.lock());
  const auto& chosen = self.paths().chosen;
  for (std::size_t i = 0; i < chosen.size() && i < *count; ++i) {
    const auto why = static_cast<base::path_reason>(i + 1);
    // Both are literals.
    reasons[i] = {base::name_of(why).data(), base::text_of(why).data(), chosen[i]};
  }
  *count = chosen.size();
  return 0;
}

/// The device that a copy is of, where its NIC has to make it; null: its engine does, or says why
/// there is none.
std::shared_ptr<device::device> without_engine(domain& d) {
  const auto on = d.selected_device();
  return on && !copy::copy_queues::are_on(**on) ? *on : nullptr;
}

int copy_or_ask_nic(fid_domain* d, std::uint64_t dst, std::uint64_t src, std::uint64_t len,
                    fi_gaudi_copy_dir dir) noexcept {
  const int ret = guarded_int([&] {
    domain& self = domain::of(d);
    const auto on = without_engine(self);
    return on ? copy_by_nic(self, *on, dst, src, len, direction_of(dir)) : -FI_EOPNOTSUPP;
  });
  return ret == -FI_EOPNOTSUPP ? extension_ops.copy(d, dst, src, len, dir) : ret;
}

int start_copy_or_ask_nic(fid_domain* d, std::uint64_t dst, std::uint64_t src, std::uint64_t len,
                          fi_gaudi_copy_dir dir, std::uint64_t* ticket) noexcept {
  const int ret = guarded_int([&] {
    domain& self = domain::of(d);
    const auto on = without_engine(self);
    if (!on) return -FI_EOPNOTSUPP;
    const int copied = copy_by_nic(self, *on, dst, src, len, direction_of(dir));
    if (copied == 0) *ticket = self.copies().add_ended();
    return copied;
  });
  return ret == -FI_EOPNOTSUPP ? extension_ops.copy_async(d, dst, src, len, dir, ticket) : ret;
}

}  // namespace

fi_gaudi_ops rdm_extension_ops = [] {
  fi_gaudi_ops ops = extension_ops;
  ops.copy = in_own_process<domain_base, copy_or_ask_nic>;
  ops.copy_async = in_own_process<domain_base, start_copy_or_ask_nic>;
  ops.path_stats = in_own_process<domain_base, path_stats>;
  ops.path_reasons = in_own_process<domain_base, path_reasons>;
  ops.cache_stats = in_own_process<domain_base, cache_stats<domain>>;
  ops.device_stats = in_own_process<domain_base, device_stats<domain>>;
  ops.pool_create = in_own_process<domain_base, pool_create<domain>>;
  ops.pool_destroy = in_own_process<domain_base, pool_destroy<domain>>;
  return ops;
}();

}  // namespace gaudi::fi
