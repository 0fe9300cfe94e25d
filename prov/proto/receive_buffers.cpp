// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/receive_buffers.hpp"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/log.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t buffers_per_slab = 64;
constexpr std::size_t posted_to_streams = 64;
constexpr std::size_t per_peer = 2;

}  // namespace

receive_buffers::receive_buffers(core::inner_domain& core, std::size_t size,
                                 std::size_t most) noexcept
    : core_(core),
      pool_(core, work::kind::receive, size, buffers_per_slab, SIZE_MAX),
      capacity_(core.info().rx_attr->size ? core.info().rx_attr->size : SIZE_MAX),
      most_(most),
      wanted_(std::min(core.over_rdma() ? most : std::min(most, posted_to_streams), capacity_)) {}

base::result<void> receive_buffers::open() {
  fid_ep* context = nullptr;
  if (const int ret = fi_srx_context(core_.domain(), core_.info().rx_attr, &context, nullptr)) {
    GAUDI_WARN(EP_CTRL, "the core provider has no shared receive context: %s\n", fi_strerror(-ret));
    return base::error{ret};
  }
  context_.reset(context);
  post_more();
  if (posted_ == 0) return base::error{-FI_ENOMEM};
  return {};
}

buffer* receive_buffers::take_local() noexcept {
  buffer* b = pool_.acquire();
  if (b) b->local = true;
  return b;
}

void receive_buffers::give_back(buffer& b) {
  if (!b.local) {
    if (posted_ < wanted_ && post(b)) return;
    --out_;
  }
  pool_.release(b);
}

// Few peers share what there is; each one beyond those brings its own, while the core has room. To
// want more than that would be to try for ever, and nobody could sleep.
void receive_buffers::serve(std::size_t peers) {
  const std::size_t needed = std::min(per_peer * peers, capacity_);
  most_ = std::max(most_, needed);
  wanted_ = std::max(wanted_, needed);
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
    if (!post(*b)) return pool_.release(*b);
    ++out_;
  }
}

bool receive_buffers::post(buffer& b) {
  if (fi_recv(context_.get(), b.bytes, pool_.buffer_size(), b.descriptor(), FI_ADDR_UNSPEC,
              b.context()))
    return false;
  ++posted_;
  return true;
}

}  // namespace gaudi::proto
