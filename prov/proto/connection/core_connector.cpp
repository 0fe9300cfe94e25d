// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/core_connector.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.hpp"

namespace gaudi::proto {
namespace {

// An entry of the queue, with the hello behind it.
constexpr std::size_t entry_space = sizeof(fi_eq_cm_entry) + 256;

// The listener's address and any port: the peer compares the first with what our hello says. Only
// an address of the loopback interface is no source for all destinations.
void set_source(fi_info& info, const net_address& name) noexcept {
  if (info.src_addr && !name.is_loopback()) {
    const net_address here = net_address(info.src_addr, info.src_addrlen).with_port(0);
    if (here.is_same_host(name)) {
      std::memcpy(info.src_addr, here.raw(), here.length());
      return;
    }
  }
  std::free(info.src_addr);
  info.src_addr = nullptr;
  info.src_addrlen = 0;
}

// Any port of the address. False: there is no memory.
bool set_source_address(fi_info& info, const net_address& from) noexcept {
  const net_address here = from.with_port(0);
  void* const copy = std::malloc(here.length());
  if (!copy) return false;
  std::memcpy(copy, here.raw(), here.length());
  std::free(info.src_addr);
  info.src_addr = copy;
  info.src_addrlen = here.length();
  return true;
}

base::result<net_address> name_of(fid_pep& listener) {
  sockaddr_storage address{};
  std::size_t length = sizeof address;
  if (const int ret = fi_getname(&listener.fid, &address, &length)) return base::error{ret};
  return net_address(&address, length);
}

void set_destination(fi_info& info, const net_address& to) noexcept {
  std::free(info.dest_addr);
  info.dest_addr = std::malloc(to.length());
  info.dest_addrlen = info.dest_addr ? to.length() : 0;
  if (info.dest_addr) std::memcpy(info.dest_addr, to.raw(), to.length());
}

}  // namespace

base::result<core::unique_fid<fid_eq>> core_connector::open_queue(bool waitable) const {
  fid_eq* eq = nullptr;
  fi_eq_attr attr{};
  // Only where somebody sleeps: some releases of the tcp provider start a progress thread for it.
  attr.wait_obj = waitable ? FI_WAIT_FD : FI_WAIT_NONE;
  if (const int ret = fi_eq_open(core_.fabric(), &attr, &eq, nullptr)) return base::error{ret};
  return core::unique_fid<fid_eq>(eq);
}

base::result<core::unique_fid<fid_pep>> core_connector::open_listener(fid_eq* events,
                                                                      fi_info& info) const {
  fid_pep* pep = nullptr;
  core::unique_fid<fid_pep> listener;
  int ret = fi_passive_ep(core_.fabric(), &info, &pep, nullptr);
  if (!ret) {
    listener.reset(pep);
    ret = fi_pep_bind(pep, &events->fid, 0);
  }
  if (!ret) ret = fi_listen(pep);
  if (!ret) return listener;
  return base::error{ret};
}

base::result<void> core_connector::listen(fid_cq* completions, fid_ep* shared_receives,
                                          bool waitable, bool any_port) {
  completions_ = completions;
  shared_receives_ = shared_receives;
  auto events = open_queue(waitable);
  if (!events) return events.failure();
  const core::unique_info info(fi_dupinfo(&core_.info()));
  if (!info) return base::error{-FI_ENOMEM};
  if (any_port && info->src_addr) {
    const net_address here = net_address(info->src_addr, info->src_addrlen).with_port(0);
    std::memcpy(info->src_addr, here.raw(), here.length());
  }
  auto listener = open_listener(events->get(), *info);
  if (!listener) {
    GAUDI_WARN(EP_CTRL, "cannot listen for peers on %s: %s\n", info->domain_attr->name,
               fi_strerror(-listener.code()));
    return listener.failure();
  }
  const auto name = name_of(**listener);
  if (!name) return name.failure();
  name_ = *name;
  events_ = std::move(*events);
  listener_ = std::move(*listener);
  return {};
}

void core_connector::use_nic(reg::other_nic& nic, fid_cq* completions) {
  if (nics_.size() < nic.number()) nics_.resize(nic.number());
  nics_[nic.number() - 1] = {.completions = completions, .receives = nullptr};
}

base::result<void> core_connector::receive_at(reg::other_nic& nic, receives_at_nics& from) {
  at_nic& at = nics_[nic.number() - 1];
  if (at.receives) return {};
  const auto opened = from.open_at(nic);
  if (!opened) return opened.failure();
  at.receives = *opened;
  return {};
}

base::result<net_address> core_connector::listen_also(const net_address& at, reg::other_nic* nic) {
  const core::unique_info info(fi_dupinfo(&core_of(nic).info()));
  if (!info || !set_source_address(*info, at)) return base::error{-FI_ENOMEM};
  others_.reserve(others_.size() + 1);
  auto listener = open_listener(events_.get(), *info);
  if (!listener) return listener.failure();
  auto name = name_of(**listener);
  if (name) others_.push_back({std::move(*listener), nic});
  return name;
}

core::unique_info core_connector::info_for(const net_address& to) const {
  core::unique_info info(fi_dupinfo(&core_.info()));
  if (!info) return info;
  set_destination(*info, to);
  set_source(*info, name_);
  return info;
}

core::unique_info core_connector::info_for(const net_address& to, const net_address& from,
                                           reg::other_nic* nic) const {
  core::unique_info info(fi_dupinfo(&core_of(nic).info()));
  if (!info) return info;
  set_destination(*info, to);
  if (!set_source_address(*info, from)) info.reset();
  return info;
}

base::result<core::unique_fid<fid_ep>> core_connector::create_endpoint(fi_info& info, void* context,
                                                                       reg::other_nic* nic) const {
  info.ep_attr->rx_ctx_cnt = shared_receives_of(nic) ? FI_SHARED_CONTEXT : 1;
  // What the data mover takes for the limit of inline sends, whichever side the request came from.
  info.tx_attr->inject_size = core_.info().tx_attr->inject_size;
  fid_ep* ep = nullptr;
  if (const int ret = fi_endpoint(core_of(nic).domain(), &info, &ep, context))
    return base::error{ret};
  return core::unique_fid<fid_ep>(ep);
}

base::result<void> core_connector::enable(fid_ep* ep, reg::other_nic* nic) const {
  fid_cq* const completions = nic ? nics_[nic->number() - 1].completions : completions_;
  fid_ep* const receives = shared_receives_of(nic);
  int ret = fi_ep_bind(ep, &events_->fid, 0);
  // Injected messages complete silently, receives must not.
  if (!ret) ret = fi_ep_bind(ep, &completions->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION);
  if (!ret) ret = fi_ep_bind(ep, &completions->fid, FI_RECV);
  if (!ret && receives) ret = fi_ep_bind(ep, &receives->fid, 0);
  if (!ret) ret = fi_enable(ep);
  if (ret) return base::error{ret};
  return {};
}

void core_connector::reject(const fi_info& info, const hello& why) const noexcept {
  fi_reject(listener_.get(), info.handle, &why, sizeof why);
}

// libfabric up to 2.1 forgets the socket of a request that is not answered by the end, which stays
// open, and the peer goes on waiting. One look accepts it, and the next reads it. Where the request
// itself has not come by then, nothing can be done: that socket stays.
void core_connector::refuse_unread(const hello& why) noexcept {
  if (!events_) return;
  constexpr unsigned max_looks = 1024;  // whoever makes many more of them meanwhile
  alignas(fi_eq_cm_entry) std::byte space[entry_space];
  const auto& entry = *reinterpret_cast<const fi_eq_cm_entry*>(space);
  unsigned empty = 0;
  for (unsigned looks = 0; looks < max_looks && empty < 2; ++looks) {
    std::uint32_t event = 0;
    errno = 0;
    const ssize_t got = fi_eq_read(events_.get(), &event, space, sizeof space, 0);
    empty = got == -FI_EAGAIN ? empty + 1 : 0;
    if (got == -FI_EAVAIL) {
      fi_eq_err_entry unread{};
      fi_eq_readerr(events_.get(), &unread, 0);
    } else if (got >= static_cast<ssize_t>(sizeof entry) && event == FI_CONNREQ) {
      const core::unique_info info(entry.info);
      reject(*info, why);
    }
  }
}

bool core_connector::read_next(connection_events& to) {
  if (!events_) return false;
  alignas(fi_eq_cm_entry) std::byte space[entry_space];
  std::uint32_t event = 0;
  // libfabric 1.17 takes a socket that has ended for one that has nothing yet, and keeps it, where
  // an earlier call left EAGAIN here (tcpx_conn_mgr.c, rx_cm_data).
  errno = 0;
  const ssize_t got = fi_eq_read(events_.get(), &event, space, sizeof space, 0);
  if (got == -FI_EAVAIL) {
    read_error(to);
    return true;
  }
  if (got < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return false;
  hand_on(event, *reinterpret_cast<const fi_eq_cm_entry*>(space),
          static_cast<std::size_t>(got) - sizeof(fi_eq_cm_entry), to);
  return true;
}

reg::other_nic* core_connector::nic_of(const fid* listener) const noexcept {
  const auto found = std::find_if(others_.begin(), others_.end(), [&](const other_listener& one) {
    return &one.listener->fid == listener;
  });
  return found == others_.end() ? nullptr : found->nic;
}

void core_connector::hand_on(std::uint32_t event, const fi_eq_cm_entry& entry,
                             std::size_t hello_length, connection_events& to) {
  hello h{};
  switch (event) {
    case FI_CONNREQ: {
      core::unique_info info(entry.info);
      const auto verdict = check_hello(entry.data, hello_length, h);
      return to.request_came(std::move(info), nic_of(entry.fid), verdict, h);
    }
    case FI_CONNECTED: {
      const bool valid = check_hello(entry.data, hello_length, h) == wire::reject_reason::none;
      return to.endpoint_up(entry.fid, valid ? &h : nullptr);
    }
    case FI_SHUTDOWN:
      return to.endpoint_ended(entry.fid);
    default:
      return;
  }
}

void core_connector::read_error(connection_events& to) {
  // Newer releases write more of the entry than this version declares.
  union {
    fi_eq_err_entry entry;
    std::byte space[256];
  } error{};
  std::byte data[256];
  error.entry.err_data = data;
  error.entry.err_data_size = sizeof data;
  if (fi_eq_readerr(events_.get(), &error.entry, 0) < 0) return;
  hello h{};
  const auto verdict = error.entry.err_data
                           ? check_hello(error.entry.err_data, error.entry.err_data_size, h)
                           : wire::reject_reason::malformed;
  to.endpoint_failed(error.entry.fid, verdict, h, error.entry.err);
}

}  // namespace gaudi::proto
