// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/domain.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/make_room.hpp"
#include "fi/common/device_region.hpp"
#include "fi/common/retired.hpp"
#include "fi/info/hmem.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {
namespace {

bool asks_auto(const fi_info& info) noexcept {
  return info.domain_attr->data_progress == FI_PROGRESS_AUTO ||
         info.domain_attr->control_progress == FI_PROGRESS_AUTO;
}

bool has_mode(const fi_info& info, int mode) noexcept {
  const int modes = info.domain_attr->mr_mode;
  return modes == retired::mr_basic || (modes & mode);
}

}  // namespace

domain::domain(const fid_domain& own, fabric& parent, const fi_info& info,
               std::unique_ptr<core::inner_domain> core)
    : domain_base(own, parent.context()),
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
  if (waitable) {
    const auto events = core_events();
    if (!events) return events.code();
  }
  if (!asked_.auto_progress || thread_) return 0;
  auto place = open_sleeping_place();
  if (!place) return place.code();
  progress_thread::tasks calls{.progress =
                                   [this] {
                                     const base::scoped_domain_lock lock(lock_);
                                     endpoints_.progress_all();
                                   },
                               .may_sleep =
                                   [this](base::waker& waker) {
                                     const base::scoped_domain_lock lock(lock_);
                                     waker.arm();
                                     return try_wait() == 0;
                                   }};
  auto started = progress_thread::start(*std::move(place), std::move(calls), endpoints_);
  if (!started) return started.code();
  thread_ = std::move(*started);
  return 0;
}

int domain::add(proto::endpoint& e) noexcept {
  const auto& all = endpoints_.all();
  if (std::find(all.begin(), all.end(), &e) != all.end()) return 0;
  if (!endpoints_.add(e)) return -FI_ENOMEM;
  for (const int fd : e.wait_fds()) {
    const int ret = core_events_->add(fd);
    if (ret == 0) continue;
    for (const int member : e.wait_fds()) core_events_->remove(member);
    endpoints_.remove(e);
    GAUDI_WARN(EP_CTRL,
               "an endpoint cannot be enabled, as nobody could sleep until it has work: %s; have "
               "fewer endpoints, or queues and counters with FI_WAIT_FD, in one domain\n",
               fi_strerror(-ret));
    return ret;
  }
  counters_->endpoints = all.size();
  if (thread_) thread_->notify();
  return 0;
}

void domain::remove(proto::endpoint& e) noexcept {
  if (!endpoints_.remove(e)) return;
  counters_->endpoints = endpoints_.all().size();
  for (const int fd : e.wait_fds()) core_events_->remove(fd);
}

bool domain::has_port_of_info() const noexcept {
  const fi_info& info = core_->info();
  if (!info.src_addr) return false;
  const auto port = proto::net_address(info.src_addr, info.src_addrlen).port();
  const auto& all = endpoints_.all();
  return port != 0 && std::any_of(all.begin(), all.end(),
                                  [&](proto::endpoint* e) { return e->name().port() == port; });
}

int domain::try_wait() {
  // Over a stream nothing stays armed.
  const bool is_of_use = core_events_ && core_->over_rdma();
  const auto ready = is_of_use ? core_events_->ready() : base::ready_fds::any();
  if (losses_) losses_->clear();
  for (proto::endpoint* e : endpoints_.all()) {
    if (const int ret = e->try_wait(ready)) return ret;
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

base::result<sleeping_place> domain::open_sleeping_place() {
  const auto events = core_events();
  if (!events) return events.failure();
  auto waker = base::waker::open();
  if (!waker) return waker.failure();
  return sleeping_place{*events, *std::move(waker)};
}

void domain::notify_of(const proto::endpoint& e) noexcept {
  if (e.needs_polling()) thread_->notify();
}

void domain::stop_thread() noexcept {
  std::unique_ptr<progress_thread> ended;  // without the lock, which it takes until then
  const base::scoped_domain_lock lock(lock_);
  ended = std::move(thread_);
}

void domain::posted_to_any() noexcept {
  for (proto::endpoint* e : endpoints_.all()) posted_to(*e);
}

}  // namespace gaudi::fi
