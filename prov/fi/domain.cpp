// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/domain.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/log.hpp"
#include "base/make_room.hpp"
#include "fi/av.hpp"
#include "fi/cntr.hpp"
#include "fi/cq.hpp"
#include "fi/device_region.hpp"
#include "fi/endpoint.hpp"
#include "fi/fabric.hpp"
#include "fi/guard.hpp"
#include "fi/info.hpp"
#include "fi/mr.hpp"
#include "fi/msg_domain.hpp"
#include "fi/poll_set.hpp"
#include "fi/retired.hpp"
#include "fi/shared_context.hpp"
#include "fi/tables.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {
namespace {

/// Then the core must not inline, at any size: it would read what it sends with the CPU, and cannot
/// tell a device address from a host's.
bool nic_reaches_devices(const base::params& params, const fi_info& info, const fi_info& core) {
  return has_hmem(info) && params.dmabuf != base::dmabuf_choice::off &&
         std::strcmp(core.fabric_attr->prov_name, "verbs") == 0;
}

int close_domain(fid_t f) noexcept {
  domain& d = domain::of(f);
  if (d.used_after_fork()) return 0;
  if (d.has_children()) {
    GAUDI_INFO(
        DOMAIN,
        "domain stays open: close its endpoints, queues, vectors and memory regions first\n");
    return -FI_EBUSY;
  }
  d.stop_thread();
  delete &d;
  return 0;
}

int open_ops(fid_t, const char* name, std::uint64_t flags, void** ops, void*) noexcept {
  if (flags) return -FI_EBADFLAGS;
  if (std::strcmp(name, FI_GAUDI_DOMAIN_OPS) != 0) return -FI_ENOSYS;
  *ops = &extension_ops;
  return 0;
}

int open_av(fid_domain* d, fi_av_attr* attr, fid_av** out, void* context) noexcept {
  domain& self = domain::of(d);
  return av_open({self.open_children(), self.lock(), self.addr_format()}, attr, out, context);
}

// Event queues may be bound for asynchronous registration, which is never asynchronous here.
int bind_domain(fid_t, fid_t other, std::uint64_t) noexcept {
  return other->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

fi_ops make_fid_ops() noexcept {
  fi_ops ops = only_close<close_domain>();
  ops.bind = in_own_process<domain, bind_domain>;
  ops.ops_open = in_own_process<domain, open_ops>;
  return ops;
}

fi_ops domain_fid_ops = make_fid_ops();
padded<fi_ops_domain> domain_ops{{.size = sizeof(fi_ops_domain),
                                  .av_open = in_own_process<domain, open_av>,
                                  .cq_open = cq_open,
                                  .endpoint = endpoint_open,
                                  .scalable_ep = not_supported,
                                  .cntr_open = cntr_open,
                                  .poll_open = poll_open,
                                  .stx_ctx = stx::open,
                                  .srx_ctx = srx::open,
                                  .query_atomic = query_atomic,
                                  .query_collective = not_supported,
                                  .endpoint2 = not_supported}};

bool asks_auto(const fi_info& info) noexcept {
  return info.domain_attr->data_progress == FI_PROGRESS_AUTO ||
         info.domain_attr->control_progress == FI_PROGRESS_AUTO;
}

bool has_mode(const fi_info& info, int mode) noexcept {
  const int modes = info.domain_attr->mr_mode;
  return modes == retired::mr_basic || (modes & mode);
}

}  // namespace

domain::domain(fabric& parent, const fi_info& info, std::unique_ptr<core::inner_domain> core,
               void* user_context)
    : domain_base(
          {.fid = {.fclass = FI_CLASS_DOMAIN, .context = user_context, .ops = &domain_fid_ops},
           .ops = &domain_ops,
           .mr = &mr_ops},
          parent.context()),
      parent_(parent.open_children()),
      // Several endpoints share the core's domain, so only a promise for the whole of it helps.
      lock_(info.domain_attr->threading != FI_THREAD_DOMAIN || asks_auto(info)),
      core_(std::move(core)),
      counters_(subject_of(*core_)),
      latencies_(*core_),
      asked_{.api_version = parent.api_version,
             .addr_format = info.addr_format,
             .hmem = has_hmem(info),
             .virtual_address = has_mode(info, FI_MR_VIRT_ADDR),
             .provider_keys = has_mode(info, FI_MR_PROV_KEY),
             .auto_progress = asks_auto(info),
             .counts_targets = (info.caps & FI_RMA_EVENT) != 0},
      rails_(*core_, context()),
      dmabufs_(*core_, context().params.dmabuf, cache_limits(context().params),
               windows(context().params), &counters_->registrations),
      loop_(*core_),
      flush_(loop_, context().params.flush, &counters_->registrations.flushes),
      imports_(*core_, cache_limits(context().params)) {}

reg::import_cache* domain::imports() noexcept {
  return takes_dmabufs() ? &imports_ : nullptr;
}

bool domain::takes_dmabufs() const noexcept {
  return context().params.dmabuf != base::dmabuf_choice::off && core_->takes_dmabufs();
}

std::size_t domain::eager_size() const noexcept {
  return context().params.eager_size_over(core_->over_rdma());
}

int domain::prepare_endpoint(bool waitable) {
  if (!base::make_room(endpoints_)) return -FI_ENOMEM;
  if (waitable) {
    const auto events = core_events();
    if (!events) return events.code();
  }
  if (!asked_.auto_progress || thread_) return 0;
  auto started = progress_thread::start(*this);
  if (!started) return started.code();
  thread_ = std::move(*started);
  return 0;
}

void domain::add(proto::endpoint& e) noexcept {
  for (const int fd : e.wait_fds()) core_events_->add(fd);
  endpoints_.push_back(&e);
  counters_->endpoints = endpoints_.size();
  if (thread_) thread_->notify();
}

void domain::remove(proto::endpoint& e) noexcept {
  if (std::erase(endpoints_, &e) == 0) return;
  counters_->endpoints = endpoints_.size();
  for (const int fd : e.wait_fds()) core_events_->remove(fd);
}

bool domain::has_port_of_info() const noexcept {
  const fi_info& info = core_->info();
  if (!info.src_addr) return false;
  const auto port = proto::net_address(info.src_addr, info.src_addrlen).port();
  return port != 0 && std::any_of(endpoints_.begin(), endpoints_.end(),
                                  [&](proto::endpoint* e) { return e->name().port() == port; });
}

int domain::try_wait() {
  if (losses_) losses_->clear();
  for (proto::endpoint* e : endpoints_) {
    if (const int ret = e->try_wait()) return ret;
  }
  return 0;
}

base::result<int> domain::core_events() {
  if (!core_events_) {
    auto set = base::event_set::open();
    if (!set) return set.failure();
    core_events_.emplace(*std::move(set));
    losses_.emplace();
    if (losses_->fd() >= 0) core_events_->add(losses_->fd());
  }
  return core_events_->fd();
}

base::result<domain::sleeping_place> domain::open_sleeping_place() {
  const auto events = core_events();
  if (!events) return events.failure();
  auto set = base::event_set::open();
  if (!set) return set.failure();
  auto waker = base::waker::open();
  if (!waker) return waker.failure();
  for (const int member : {*events, waker->fd()}) {
    if (const int ret = set->add(member)) return base::error{ret};
  }
  return sleeping_place{*std::move(set), *std::move(waker)};
}

void domain::notify_of(const proto::endpoint& e) noexcept {
  if (e.needs_polling()) thread_->notify();
}

void domain::posted_to_any() noexcept {
  for (proto::endpoint* e : endpoints_) posted_to(*e);
}

void domain::progress() {
  for (proto::endpoint* e : endpoints_) e->progress();
}

int domain_open(fid_fabric* f, fi_info* info, fid_domain** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!info || !info->domain_attr || !out) return -FI_EINVAL;
    if (info->ep_attr && info->ep_attr->type == FI_EP_MSG)
      return msg_domain::open(f, info, out, context);
    const base::params& params = fabric::of(f).context().params;
    auto core_info = core_info_for(*info, params);
    if (!core_info) return core_info.code();
    if (nic_reaches_devices(params, *info, **core_info)) (*core_info)->tx_attr->inject_size = 0;
    auto core = core::inner_domain::open(std::move(*core_info));
    if (!core) return core.code();
    *out = new domain(fabric::of(f), *info, std::move(*core), context);
    return 0;
  });
}

}  // namespace gaudi::fi
