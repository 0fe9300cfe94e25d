// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint.hpp"

#include <rdma/fi_errno.h>

#include <chrono>
#include <thread>

#include "base/log.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t queue_flags = FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION;
constexpr std::uint64_t target_flags = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t counter_flags = FI_SEND | FI_RECV | FI_READ | FI_WRITE | target_flags;

// An answer takes some microseconds where the peer progresses, and else as long as it likes.
constexpr unsigned looks_before_naps = 64;
constexpr std::chrono::microseconds nap_between_looks{50};

}  // namespace

endpoint::endpoint(const fid_ep& own, const fid_ep& sharing, domain& parent, const fi_info& info,
                   const proto::endpoint::settings& config)
    : fid_ep(own),
      sharing_(sharing),
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
  const base::scoped_domain_lock lock(parent().lock());
  parent().remove(core_);
  for (const direction* d : {&tx_, &rx_})
    if (d->queue) d->queue->forget(core_);
  core_.shut_down();
}

// Others use the domain meanwhile, a peer in this process among them.
void endpoint::linger() {
  for (unsigned looks = 0;; ++looks) {
    {
      const base::scoped_domain_lock lock(parent().lock());
      if (!core_.must_linger()) return;
      parent().endpoints().progress_all();
    }
    if (looks >= looks_before_naps) std::this_thread::sleep_for(nap_between_looks);
  }
}

int endpoint::bind(fid_t other, std::uint64_t flags) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
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
      return &stx::of(other).parent() == &parent_ ? 0 : -FI_EINVAL;
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
  queue.parent().lock().assert_held();
  for (const auto bit : {FI_TRANSMIT, FI_RECV}) {
    if (!(flags & bit)) continue;
    direction& d = bit == FI_TRANSMIT ? tx_ : rx_;
    if (d.queue) return -FI_EINVAL;
    queue.serve(core_);
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
  counter.parent().lock().assert_held();
  if ((flags & target_flags) && !parent().counts_targets()) {
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
  if (&context.parent() != &parent_ || core_.enabled() || srx_hold_) return -FI_EINVAL;
  context.parent().lock().assert_held();
  core_.messages().share(context.receives());
  srx_hold_ = child_count::ref(context.bound());
  msg = sharing_.msg;
  tagged = sharing_.tagged;
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
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock guard(lock());
  if (core_.enabled()) return parent().add(core_);
  if (!addresses_) return -FI_ENOAV;
  if (lacks_completions()) return -FI_ENOCQ;
  const bool waitable = waitable_ || parent().progresses_itself();
  if (const int ret = parent().prepare_endpoint(waitable)) return ret;
  const auto enabled = core_.enable(
      {.waitable = waitable, .any_port = parent().has_port_of_info(), .links = &links_});
  if (!enabled) return enabled.code();
  return parent().add(core_);
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

}  // namespace gaudi::fi
