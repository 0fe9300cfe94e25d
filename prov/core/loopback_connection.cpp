// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/loopback_connection.hpp"

#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace gaudi::core {
namespace {

// Some cores keep lengths in 32 bits, whatever max_msg_size says.
constexpr std::size_t max_operation = std::size_t{1} << 30;

/// Polls before the CPU is given to others: on hardware the answer is there by then, soft-RoCE may
/// need this very CPU.
constexpr unsigned eager_polls = 64;

/// What counts of the time between two polls. A thread, or a machine, that was stopped for longer
/// has not waited for the NIC, which may have been stopped with it.
constexpr std::chrono::milliseconds max_between_polls{10};

/// Calls `step` until it gives something else than -FI_EAGAIN. -FI_ETIMEDOUT: that took longer than
/// `limit`.
template <class Step>
int until_done(const base::clock& clock, base::clock::duration limit, Step step) {
  base::clock::duration waited{};
  auto last = clock.now();
  for (unsigned polls = 0;; ++polls) {
    const auto ret = static_cast<int>(step());
    if (ret != -FI_EAGAIN) return ret;
    if (polls < eager_polls) continue;
    const auto now = clock.now();
    waited += std::min<base::clock::duration>(now - last, max_between_polls);
    last = now;
    if (waited > limit) return -FI_ETIMEDOUT;
    std::this_thread::yield();
  }
}

/// The port has the same place in both families' addresses.
void clear_port(void* address, std::size_t length) noexcept {
  if (address && length >= sizeof(sockaddr_in)) static_cast<sockaddr_in*>(address)->sin_port = 0;
}

}  // namespace

base::result<std::unique_ptr<loopback_connection>> loopback_connection::open(inner_domain& core,
                                                                             base::clock clock) {
  std::unique_ptr<loopback_connection> self(new loopback_connection(core, clock));
  if (const auto done = self->open_queues(); !done) return done.failure();
  if (const auto done = self->listen(); !done) return done.failure();
  if (const auto done = self->connect(); !done) return done.failure();
  if (const auto done = self->answer_until_connected(); !done) return done.failure();
  return self;
}

unique_info loopback_connection::info_without_port() const {
  unique_info info(fi_dupinfo(&core_.info()));
  if (info) clear_port(info->src_addr, info->src_addrlen);
  return info;
}

base::result<void> loopback_connection::open_queues() {
  fid_eq* eq = nullptr;
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_NONE;
  if (const int ret = fi_eq_open(core_.fabric(), &eq_attr, &eq, nullptr)) return base::error{ret};
  events_.reset(eq);
  fid_cq* cq = nullptr;
  fi_cq_attr cq_attr{};
  cq_attr.size = 8;
  cq_attr.format = FI_CQ_FORMAT_CONTEXT;
  cq_attr.wait_obj = FI_WAIT_NONE;
  if (const int ret = fi_cq_open(core_.domain(), &cq_attr, &cq, nullptr)) return base::error{ret};
  completions_.reset(cq);
  return {};
}

base::result<void> loopback_connection::listen() {
  const auto info = info_without_port();
  if (!info) return base::error{-FI_ENOMEM};
  fid_pep* pep = nullptr;
  if (const int ret = fi_passive_ep(core_.fabric(), info.get(), &pep, nullptr))
    return base::error{ret};
  listener_.reset(pep);
  if (const int ret = fi_pep_bind(pep, &events_->fid, 0)) return base::error{ret};
  if (const int ret = fi_listen(pep)) return base::error{ret};
  return {};
}

base::result<unique_fid<fid_ep>> loopback_connection::endpoint_for(fi_info& info) {
  // A request's info asks for more than the domain may have been opened for; and the CPU, which
  // would read what is sent inline, does not reach all that the NIC does.
  info.tx_attr->inject_size = 0;
  info.ep_attr->rx_ctx_cnt = 1;  // receives of its own
  fid_ep* ep = nullptr;
  if (const int ret = fi_endpoint(core_.domain(), &info, &ep, nullptr)) return base::error{ret};
  unique_fid<fid_ep> made(ep);
  if (const int ret = fi_ep_bind(ep, &events_->fid, 0)) return base::error{ret};
  if (const int ret = fi_ep_bind(ep, &completions_->fid, FI_TRANSMIT | FI_RECV))
    return base::error{ret};
  if (const int ret = fi_enable(ep)) return base::error{ret};
  return made;
}

base::result<void> loopback_connection::connect() {
  sockaddr_storage here{};
  std::size_t length = sizeof here;
  if (const int ret = fi_getname(&listener_->fid, &here, &length)) return base::error{ret};
  const auto info = info_without_port();
  if (!info) return base::error{-FI_ENOMEM};
  std::free(std::exchange(info->dest_addr, std::malloc(length)));
  if (!info->dest_addr) return base::error{-FI_ENOMEM};
  std::memcpy(info->dest_addr, &here, length);
  info->dest_addrlen = length;
  // Any: verbs finds the NIC by the destination.
  std::free(std::exchange(info->src_addr, nullptr));
  info->src_addrlen = 0;
  auto made = endpoint_for(*info);
  if (!made) return made.failure();
  near_ = *std::move(made);
  if (const int ret = fi_connect(near_.get(), info->dest_addr, nullptr, 0)) return base::error{ret};
  return {};
}

base::result<void> loopback_connection::accept(unique_info request) {
  auto made = endpoint_for(*request);
  if (!made) return made.failure();
  far_ = *std::move(made);
  if (const int ret = fi_accept(far_.get(), nullptr, 0)) return base::error{ret};
  return {};
}

base::result<void> loopback_connection::answer_until_connected() {
  for (unsigned connected = 0; connected < 2;) {
    std::uint32_t event = 0;
    fi_eq_cm_entry entry{};
    // By its address: a structure with a flexible member is in no lambda's reach.
    const int ret = until_done(clock_, time_limit(0), [this, &event, into = &entry] {
      return fi_eq_read(events_.get(), &event, into, sizeof *into, 0);
    });
    if (ret < 0) return base::error{ret == -FI_EAVAIL ? -FI_ECONNREFUSED : ret};
    if (event == FI_CONNECTED) ++connected;
    if (event != FI_CONNREQ) continue;
    if (const auto done = accept(unique_info(entry.info)); !done) return done;
  }
  // Nobody else is let in.
  listener_.reset();
  return {};
}

// `part` moves [offset, offset + length).
template <class Part>
base::result<void> loopback_connection::in_parts(std::size_t length, Part part) {
  const std::size_t most = std::min(core_.info().ep_attr->max_msg_size, max_operation);
  for (std::size_t done = 0; done < length;) {
    const std::size_t now = std::min(length - done, most);
    if (const int ret = part(done, now)) return base::error{ret};
    done += now;
  }
  return {};
}

int loopback_connection::await(unsigned operations, base::clock::duration limit) {
  for (; operations != 0; --operations) {
    fi_cq_entry entry{};
    const int ret =
        until_done(clock_, limit, [&] { return fi_cq_read(completions_.get(), &entry, 1); });
    if (ret != 1) return ret == -FI_EAVAIL ? -FI_EIO : ret;
  }
  return 0;
}

base::result<void> loopback_connection::read(void* to, void* descriptor, std::size_t length,
                                             std::uint64_t address, std::uint64_t key) {
  return in_parts(length, [&](std::size_t at, std::size_t part) {
    fi_context2 context{};
    const auto limit = time_limit(part);
    const int ret = until_done(clock_, limit, [&] {
      return fi_read(near_.get(), static_cast<std::byte*>(to) + at, part, descriptor, 0,
                     address + at, key, &context);
    });
    return ret ? ret : await(1, limit);
  });
}

// The end that has connected sends: over iWARP it has the first word.
base::result<void> loopback_connection::copy(const local_place& to, const local_place& from,
                                             std::size_t length) {
  return in_parts(length, [&](std::size_t at, std::size_t part) {
    fi_context2 received{};
    fi_context2 sent{};
    const auto limit = time_limit(part);
    int ret = until_done(clock_, limit, [&] {
      return fi_recv(far_.get(), to.bytes + at, part, to.descriptor, 0, &received);
    });
    if (ret) return ret;
    ret = until_done(clock_, limit, [&] {
      return fi_send(near_.get(), from.bytes + at, part, from.descriptor, 0, &sent);
    });
    return ret ? ret : await(2, limit);
  });
}

}  // namespace gaudi::core
