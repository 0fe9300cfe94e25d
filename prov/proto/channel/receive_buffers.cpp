// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/receive_buffers.hpp"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/log.hpp"
#include "proto/connection/credit_pool.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t receives_per_slab = 64;
constexpr std::size_t per_peer = 2;  // over a stream
// What a peer may send at any time, whatever others do (credit_pool).
constexpr std::size_t per_peer_over_rdma = credit_pool::certain + wire::control_window;
// Of a receive context that many peers share; what the core proposes is for a few of them.
constexpr std::size_t max_context = 4096;
constexpr std::size_t max_per_stream = 16;  // as many as one look at the core reports

}  // namespace

receive_buffers::receive_buffers(core::inner_domain& core, std::size_t size,
                                 std::size_t most) noexcept
    : core_(core),
      pool_(core, posted_op::kind::receive, size, receives_per_slab, SIZE_MAX),
      streams_(!core.over_rdma()),
      budget_(most),
      capacity_(max_at_core(core, most)),
      most_(most),
      needed_(streams_ ? 0 : std::min(most, capacity_)) {
  if (streams_) serve(1);
}

std::size_t receive_buffers::max_at_core(const core::inner_domain& core,
                                         std::size_t most) noexcept {
  return std::max(core.info().rx_attr->size, core.over_rdma() ? max_context : most);
}

base::result<void> receive_buffers::open() {
  if (streams_) {
    buffer* const first = pool_.acquire();
    if (!first) return base::error{-FI_ENOMEM};
    pool_.release(*first);
    return {};
  }
  if (const auto opened = open_context(core_, nullptr); !opened) return opened.failure();
  post_more();
  if (posted_ == 0) return base::error{-FI_ENOMEM};
  return {};
}

base::result<receive_buffers::posted_at*> receive_buffers::open_context(core::inner_domain& at,
                                                                        reg::other_nic* nic) {
  contexts_.reserve(contexts_.size() + 1);
  fid_ep* receives = nullptr;
  fi_rx_attr attr = *at.info().rx_attr;
  attr.size = capacity_;
  int ret = fi_srx_context(at.domain(), &attr, &receives, nullptr);
  if (ret && at.info().rx_attr->size != 0) {
    // More than this NIC has.
    attr.size = at.info().rx_attr->size;
    ret = fi_srx_context(at.domain(), &attr, &receives, nullptr);
  }
  if (ret) {
    GAUDI_WARN(EP_CTRL, "the core provider has no shared receive context: %s\n", fi_strerror(-ret));
    return base::error{ret};
  }
  contexts_.push_back({.receives = core::unique_fid<fid_ep>(receives),
                       .nic = nic,
                       .capacity = attr.size,
                       .wanted = 0});
  want(needed_);
  return &contexts_.back();
}

base::result<fid_ep*> receive_buffers::open_at(reg::other_nic& nic) {
  const auto known = std::find_if(contexts_.begin(), contexts_.end(),
                                  [&](const posted_at& one) { return one.nic == &nic; });
  posted_at* at = known == contexts_.end() ? nullptr : &*known;
  if (!at) {
    const auto opened = open_context(nic.core(), &nic);
    if (!opened) return opened.failure();
    at = *opened;
  }
  post_more();
  if (at->posted == 0) return base::error{-FI_ENOMEM};
  return at->receives.get();
}

// Each context for itself, as far as it has room.
void receive_buffers::want(std::size_t of_each) noexcept {
  needed_ = std::max(needed_, of_each);
  wanted_ = 0;
  for (posted_at& one : contexts_) {
    one.wanted = std::min(needed_, one.capacity);
    wanted_ += one.wanted;
  }
  most_ = std::max(most_, wanted_);
}

buffer* receive_buffers::take_local() noexcept {
  buffer* b = pool_.acquire();
  if (!b) return nullptr;
  b->local = true;
  b->connection_id = 0;
  return b;
}

void receive_buffers::give_back(buffer& b) {
  if (!b.local) {
    if (posted_ < wanted_ && post(b)) return;  // never of a stream, where none are wanted
    --out_;
  }
  pool_.release(b);
}

// Each peer brings its own, while the core has room. To want more than that would be to try for
// ever, and nobody could sleep.
void receive_buffers::serve(std::size_t peers) {
  if (streams_) {
    // Half of what there is, as the other half may be held by messages that wait
    // (queue_unexpected).
    share_ = std::clamp(budget_ / 2 / std::max<std::size_t>(peers, 1), per_peer, max_per_stream);
    max_shared_ = budget_ / 2 + per_peer * peers;
    most_ = budget_ + per_peer * peers;
    return;
  }
  const std::size_t needed = std::min(budget_ + per_peer_over_rdma * peers, capacity_);
  want(needed);
  post_more();
}

void receive_buffers::post_more() {
  while (short_of_posted()) {
    buffer* b = pool_.acquire();
    if (!b) {
      // What there is has to do: each further try would fail, and warn, again.
      most_ = out_;
      return;
    }
    b->local = false;
    b->connection_id = 0;
    if (!post(*b)) return pool_.release(*b);
    ++out_;
  }
}

std::size_t receive_buffers::wanted_by(const connection& c) const noexcept {
  return c.usable() && !c.shm && out_ < max_shared_ ? share_ : per_peer;
}

bool receive_buffers::post_more(connection& c) {
  if (!streams_ || !c.ep) return true;
  while (c.receives.posted < wanted_by(c)) {
    buffer* b = has_room() ? pool_.acquire() : nullptr;
    if (!b) {
      // As above.
      most_ = std::min(most_, out_);
      return c.receives.posted != 0;
    }
    b->local = false;
    b->connection_id = c.id;
    ++out_;
    if (post(*b, c)) continue;
    give_back(*b);
    return false;
  }
  return true;
}

// To the first context that wants more.
bool receive_buffers::post(buffer& b) {
  std::size_t to = 0;
  while (to + 1 < contexts_.size() && contexts_[to].posted >= contexts_[to].wanted) ++to;
  posted_at& at = contexts_[to];
  void* const descriptor = at.nic ? b.descriptor_at(*at.nic) : b.descriptor();
  if (!descriptor && core_.needs_local_mr()) {
    // As in post_more().
    most_ = out_;
    return false;
  }
  if (fi_recv(at.receives.get(), b.bytes, pool_.buffer_size(), descriptor, FI_ADDR_UNSPEC,
              b.context()))
    return false;
  b.endpoint = static_cast<std::uint32_t>(to);
  ++at.posted;
  ++posted_;
  return true;
}

bool receive_buffers::post(buffer& b, connection& c) {
  if (fi_recv(c.ep.get(), b.bytes, pool_.buffer_size(), b.descriptor(), FI_ADDR_UNSPEC,
              b.context()))
    return false;
  b.endpoint = c.receives.endpoint;
  ++c.receives.posted;
  return true;
}

}  // namespace gaudi::proto
