// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/endpoint.hpp"

#include <rdma/fi_errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.hpp"
#include "fi/guard.hpp"
#include "fi/info_offer.hpp"
#include "fi/rail_interfaces.hpp"
#include "fi/tables.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t queue_flags = FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION;
constexpr std::uint64_t target_flags = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t counter_flags = FI_SEND | FI_RECV | FI_READ | FI_WRITE | target_flags;

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

// Enough for a peer that computes for a while; one that is stopped holds up a close no longer.
constexpr std::chrono::milliseconds linger_time{2000};
// An answer takes some microseconds where the peer progresses, and else as long as it likes.
constexpr unsigned looks_before_naps = 64;
constexpr std::chrono::microseconds nap_between_looks{50};

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

proto::endpoint::settings settings_for(domain& d, const fi_info& info) {
  const base::params& p = d.context().params;
  proto::rail_settings rails = d.rails();
  rails.streams = d.streams();
  return {.directed_receive = (info.caps & FI_DIRECTED_RECV) != 0,
          .source_errors = (info.caps & FI_SOURCE_ERR) != 0,
          .rma_order = info.tx_attr && (info.tx_attr->msg_order & offer::direct_order) != 0,
          .provider_keys = d.provider_keys() && d.virtual_address(),
          .eager_size = d.eager_size(),
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
          .passes_dmabufs = p.dmabuf != base::dmabuf_choice::off,
          .imports = d.imports()};
}

}  // namespace

endpoint::endpoint(domain& parent, const fi_info& info, const proto::endpoint::settings& config,
                   void* user_context)
    : fid_ep{.fid = {.fclass = FI_CLASS_EP, .context = user_context, .ops = &rdm_fid_ops},
             .ops = &ep_ops,
             .cm = &endpoint_cm_ops,
             .msg = &endpoint_msg_ops,
             .rma = &endpoint_rma_ops,
             .tagged = &endpoint_tagged_ops,
             .atomic = &endpoint_atomic_ops,
             .collective = &no_collectives},
      parent_(parent),
      hold_(parent.open_children()),
      caps_(info.caps),
      core_(parent.core(), parent.keys(), parent.context().devices, parent.paths(), config,
            parent.latencies()) {
  tx_.default_flags = info.tx_attr ? info.tx_attr->op_flags : 0;
  rx_.default_flags = info.rx_attr ? info.rx_attr->op_flags : 0;
}

endpoint::~endpoint() {
  linger();
  const base::scoped_domain_lock lock(parent_.lock());
  parent_.remove(core_);
  core_.shut_down();
}

// Others use the domain meanwhile, a peer in this process among them.
void endpoint::linger() {
  for (unsigned looks = 0;; ++looks) {
    {
      const base::scoped_domain_lock lock(parent_.lock());
      if (!core_.must_linger()) return;
      parent_.progress();
    }
    if (looks >= looks_before_naps) std::this_thread::sleep_for(nap_between_looks);
  }
}

int endpoint::bind(fid_t other, std::uint64_t flags) {
  if (parent_.used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock guard(lock());
  switch (other->fclass) {
    case FI_CLASS_AV:
      if (addresses_) return -FI_EINVAL;
      core_.use_addresses(av::of(other).addresses());
      addresses_ = &av::of(other);
      addresses_hold_ = child_count::ref(addresses_->bound());
      return 0;
    case FI_CLASS_CQ:
      return bind_queue(cq::of(other), flags);
    case FI_CLASS_CNTR:
      return bind_counter(cntr::of(other), flags);
    case FI_CLASS_SRX_CTX:
      return bind_srx(srx::of(other));
    case FI_CLASS_STX_CTX:
      return bind_stx(stx::of(other));
    case FI_CLASS_EQ:
      links_.bind(event_queue::of(other));
      return 0;
    default:
      return -FI_ENOSYS;
  }
}

int endpoint::bind_queue(cq& queue, std::uint64_t flags) {
  if ((flags & ~queue_flags) || !(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EBADFLAGS;
  if (&queue.parent() != &parent_) return -FI_EINVAL;
  for (const auto bit : {FI_TRANSMIT, FI_RECV}) {
    if (!(flags & bit)) continue;
    direction& d = bit == FI_TRANSMIT ? tx_ : rx_;
    if (d.queue) return -FI_EINVAL;
    d.queue = &queue;
    d.entries = &queue.entries();
    d.hold = child_count::ref(queue.bound());
    d.selective = flags & FI_SELECTIVE_COMPLETION;
  }
  if (flags & FI_RECV) core_.messages().use_queue(&queue.entries(), rx_.selective);
  waitable_ = waitable_ || queue.waitable();
  return 0;
}

int endpoint::bind_counter(cntr& counter, std::uint64_t flags) {
  if (flags == 0 || (flags & ~counter_flags)) return -FI_EBADFLAGS;
  if (&counter.parent() != &parent_) return -FI_EINVAL;
  if ((flags & target_flags) && !parent_.counts_targets()) {
    GAUDI_INFO(EP_CTRL, "a counter for FI_REMOTE_READ or FI_REMOTE_WRITE needs FI_RMA_EVENT\n");
    // Who asks for what else there is as well gets that, as from other providers.
    flags &= ~target_flags;
    if (flags == 0) return -FI_ENOSYS;
  }
  base::counter& counts = counter.counter();
  if (flags & FI_SEND) counters_.sends = &counts;
  if (flags & FI_RECV) {
    counters_.receives = &counts;
    core_.messages().count_shared(&counts);
  }
  if (flags & FI_READ) counters_.reads = &counts;
  if (flags & FI_WRITE) counters_.writes = &counts;
  if (flags & FI_REMOTE_READ) peer_accesses_.reads = &counts;
  if (flags & FI_REMOTE_WRITE) peer_accesses_.writes = &counts;
  core_.count_peers(peer_accesses_);
  counter_holds_.emplace_back(counter.bound());
  waitable_ = waitable_ || counter.waitable();
  return 0;
}

int endpoint::bind_srx(srx& context) {
  if (&context.parent() != &parent_ || core_.enabled() || msg == &sending_msg_ops)
    return -FI_EINVAL;
  core_.messages().share(context.receives());
  srx_hold_ = child_count::ref(context.bound());
  msg = &sending_msg_ops;
  tagged = &sending_tagged_ops;
  return 0;
}

int endpoint::bind_stx(stx& context) {
  if (&context.parent() != &parent_ || core_.enabled()) return -FI_EINVAL;
  stx_hold_ = child_count::ref(context.bound());
  return 0;
}

// Every kind of operation must be able to report its end, by queue or counter.
bool endpoint::lacks_completions() const noexcept {
  if (!rx_.queue && (caps_ & FI_RECV) && !counters_.receives) return true;
  if (tx_.queue) return false;
  return ((caps_ & FI_SEND) && !counters_.sends) || ((caps_ & FI_READ) && !counters_.reads) ||
         ((caps_ & FI_WRITE) && !counters_.writes);
}

int endpoint::enable() {
  if (parent_.used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock guard(lock());
  if (core_.enabled()) return 0;
  if (!addresses_) return -FI_ENOAV;
  if (lacks_completions()) return -FI_ENOCQ;
  const bool waitable = waitable_ || parent_.progresses_itself();
  if (const int ret = parent_.prepare_endpoint(waitable)) return ret;
  const auto enabled = core_.enable(
      {.waitable = waitable, .any_port = parent_.has_port_of_info(), .links = &links_});
  if (!enabled) return enabled.code();
  parent_.add(core_);
  return 0;
}

int endpoint::get_flags(std::uint64_t& flags) const {
  if ((flags & FI_TRANSMIT) && (flags & FI_RECV)) return -FI_EINVAL;
  if (!(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EINVAL;
  flags = (flags & FI_TRANSMIT) ? tx_.default_flags : rx_.default_flags;
  return 0;
}

int endpoint::set_flags(std::uint64_t flags) {
  if ((flags & FI_TRANSMIT) && (flags & FI_RECV)) return -FI_EINVAL;
  if (!(flags & (FI_TRANSMIT | FI_RECV))) return -FI_EINVAL;
  direction& d = (flags & FI_TRANSMIT) ? tx_ : rx_;
  d.default_flags = flags & ~(FI_TRANSMIT | FI_RECV);
  return 0;
}

int endpoint_open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->ep_attr || !out) return -FI_EINVAL;
    if (info->ep_attr->type != FI_EP_RDM) return -FI_EINVAL;
    domain& parent = domain::of(d);
    *out = new endpoint(parent, *info, settings_for(parent, *info), context);
    return 0;
  });
}

}  // namespace gaudi::fi
