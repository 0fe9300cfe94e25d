// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/open_endpoint.hpp"

#include <rdma/fi_errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/endpoint.hpp"
#include "fi/rdm/endpoint_atomic.hpp"
#include "fi/rdm/endpoint_cm.hpp"
#include "fi/rdm/endpoint_msg.hpp"
#include "fi/rdm/endpoint_options.hpp"
#include "fi/rdm/endpoint_rma.hpp"
#include "fi/rdm/endpoint_tagged.hpp"

namespace gaudi::fi {
namespace {

int close_endpoint(fid_t f) noexcept {
  // To close a connection here would shut it down for the parent.
  if (endpoint::of(f).parent().used_after_fork()) return 0;
  delete &endpoint::of(f);
  return 0;
}

int bind_endpoint(fid_t f, fid_t other, std::uint64_t flags) noexcept {
  return guarded_int([&] { return endpoint::of(f).bind(other, flags); });
}

int control(fid_t f, int command, void* arg) noexcept {
  return guarded_int([&]() -> int {
    endpoint& self = endpoint::of(f);
    if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
    switch (command) {
      case FI_ENABLE:
        return self.enable();
      case FI_GETOPSFLAG:
        return self.get_flags(*static_cast<std::uint64_t*>(arg));
      case FI_SETOPSFLAG:
        return self.set_flags(*static_cast<const std::uint64_t*>(arg));
      default:
        return -FI_ENOSYS;
    }
  });
}

ssize_t cancel(fid_t f, void* context) noexcept {
  return guarded([&]() -> ssize_t {
    endpoint& self = endpoint::of(f);
    if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(self.lock());
    return self.receives().cancel(context);
  });
}

fi_ops make_rdm_fid_ops() noexcept {
  fi_ops ops = only_close<close_endpoint>();
  ops.bind = bind_endpoint;
  ops.control = control;
  return ops;
}
fi_ops rdm_fid_ops = make_rdm_fid_ops();
padded<fi_ops_ep> ep_ops{{.size = sizeof(fi_ops_ep),
                          .cancel = cancel,
                          .getopt = endpoint_getopt,
                          .setopt = endpoint_setopt,
                          .tx_ctx = not_supported,
                          .rx_ctx = not_supported,
                          .rx_size_left = not_supported,
                          .tx_size_left = not_supported}};

fid_ep own_tables(void* context) noexcept {
  return {.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &rdm_fid_ops},
          .ops = &ep_ops,
          .cm = &endpoint_cm_ops,
          .msg = &endpoint_msg_ops,
          .rma = &endpoint_rma_ops,
          .tagged = &endpoint_tagged_ops,
          .atomic = &endpoint_atomic_ops,
          .collective = &no_collectives};
}

const fid_ep sharing_tables = [] {
  fid_ep tables = own_tables(nullptr);
  tables.msg = &sending_msg_ops;
  tables.tagged = &sending_tagged_ops;
  return tables;
}();

// Enough for a peer that computes for a while; one that is stopped holds up a close no longer.
constexpr std::chrono::milliseconds linger_time{2000};

// Over a stream each connection takes a file descriptor, as do its rails of either end, and the
// application has a use for some.
base::connection_limits limits_of(const core::inner_domain& core, std::size_t rails,
                                  const base::connection_limits& asked) {
  base::connection_limits limits = asked;
  const std::size_t for_each = 2 * rails - 1;
  rlimit files{};
  const bool is_limited = !core.over_rdma() && ::getrlimit(RLIMIT_NOFILE, &files) == 0 &&
                          files.rlim_cur != RLIM_INFINITY;
  if (is_limited && limits.most != 0)
    limits.most = std::clamp<std::size_t>(files.rlim_cur / 4 * 3 / for_each, 1, limits.most);
  return limits;
}

proto::endpoint::settings settings_for(domain& d, const fi_info& info) GAUDI_REQUIRES(d.lock()) {
  const base::params& p = d.context().params;
  proto::rail_settings rails = d.rails();
  rails.streams = d.streams();
  return {.directed_receive = (info.caps & FI_DIRECTED_RECV) != 0,
          .source_errors = (info.caps & FI_SOURCE_ERR) != 0,
          .rma_order = info.tx_attr && (info.tx_attr->msg_order & offer::direct_order) != 0,
          .provider_keys = d.provider_keys() && d.virtual_address(),
          .eager_size = d.eager_size(),
          .max_by_ring = p.max_by_ring(),
          .staging_chunk = p.staging_chunk,
          .staging_depth = p.staging_depth,
          .rx_buffers = p.rx_buffers,
          .unexpected_limit = p.unexpected_limit,
          .linger = linger_time,
          .limits = limits_of(d.core(), rails.count, p.limits),
          .rails = rails,
          .copies = copy::engine_config::of(p),
          .rendezvous = p.rndv,
          .loop = &d.loop(),
          .flush = &d.flush(),
          .kernel = p.ipc != base::ipc_choice::off ? &ipc::host_kernel::real() : nullptr,
          .dmabufs = {.are_passed = p.dmabuf != base::dmabuf_choice::off,
                      .registrar = &d.dmabufs(),
                      .imports = d.imports()}};
}

}  // namespace

int endpoint_open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->ep_attr || !out) return -FI_EINVAL;
    if (info->ep_attr->type != FI_EP_RDM) return -FI_EINVAL;
    domain& parent = domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    const auto settings = [&] {
      const base::scoped_domain_lock lock(parent.lock());
      return settings_for(parent, *info);
    }();
    *out = new endpoint(own_tables(context), sharing_tables, parent, *info, settings);
    return 0;
  });
}

}  // namespace gaudi::fi
