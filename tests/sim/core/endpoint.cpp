// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connected endpoints and the receives that they share: how they are opened, bound and closed.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

int close_endpoint(fid* f) {
  auto& ep = of_fid<core_endpoint, fid_ep>(f);
  if (ep.events)
    std::erase_if(ep.events->entries, [&](const auto& e) { return e.about == &ep.fid; });
  if (ep.wire) ep.wire->close_end(ep.end);
  ep.domain->held->place_all();
  for (const auto& room : ep.own.buffers)
    ep.arrivals->report({{room.context, FI_MSG | FI_RECV, 0}, FI_ECANCELED, 0});
  ep.at->closed();
  delete &ep;
  return 0;
}

int bind_endpoint(fid* f, fid* to, std::uint64_t flags) {
  auto& ep = of_fid<core_endpoint, fid_ep>(f);
  switch (to->fclass) {
    case FI_CLASS_EQ:
      ep.events = &of_fid<core_events, fid_eq>(to);
      return 0;
    case FI_CLASS_CQ:
      if (flags & FI_TRANSMIT) ep.transmits = &of_fid<core_completions, fid_cq>(to);
      if (flags & FI_RECV) ep.arrivals = &of_fid<core_completions, fid_cq>(to);
      return 0;
    case FI_CLASS_SRX_CTX:
      ep.shared = &of_fid<core_receives, fid_ep>(to);
      return 0;
    default:
      return -FI_EINVAL;
  }
}

int enable_endpoint(fid* f, int command, void*) {
  auto& ep = of_fid<core_endpoint, fid_ep>(f);
  const bool is_whole = ep.events && ep.transmits && ep.arrivals;
  return command == FI_ENABLE && is_whole ? 0 : -FI_EINVAL;
}

int close_receives(fid* f) {
  auto& r = of_fid<core_receives, fid_ep>(f);
  r.at->closed();
  delete &r;
  return 0;
}

ssize_t post_receive(fid_ep* f, void* bytes, std::size_t length, void* descriptor, fi_addr_t,
                     void* context) {
  auto& r = down<core_receives>(f);
  return post_to(r.queue, *r.domain, {static_cast<std::byte*>(bytes), length, context}, descriptor);
}

}  // namespace

ssize_t post_to(receive_queue& queue, core_domain& domain, const receive_queue::posted& room,
                void* descriptor) {
  network& net = domain.at->net();
  if (net.numbers().chance(net.how().refused_posts)) return -FI_EAGAIN;
  const core_memory* const m = domain.check_local(room.bytes, room.length, descriptor);
  queue.buffers.push_back(room);
  if (m && m->on_device) {
    receive_queue::posted& last = queue.buffers.back();
    last.of_device = &domain;
    last.bytes = m->first + (reinterpret_cast<std::uint64_t>(room.bytes) - m->address);
  }
  for (const auto& stopped : std::exchange(queue.waiting, {})) stopped.wire->arrive(stopped.sender);
  return 0;
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops),
                    .close = close_endpoint,
                    .bind = bind_endpoint,
                    .control = enable_endpoint};
  if (down<core_domain>(domain).at->net().refuses_endpoints()) return -FI_ENOMEM;
  auto* ep = new core_endpoint{};
  ep->fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &ops};
  ep->cm = endpoint_cm_ops();
  ep->msg = endpoint_msg_ops();
  ep->rma = endpoint_rma_ops();
  ep->domain = &down<core_domain>(domain);
  ep->at = ep->domain->at;
  ep->interface = interface_of(info->src_addr);
  if (info->handle && info->handle->fclass == FI_CLASS_CONNREQ) {
    ep->wire = static_cast<core_request*>(info->handle)->wire;
    ep->end = 1;
    ep->wire->ends[1].ep = ep;
  }
  ep->at->opened();
  *out = ep;
  return 0;
}

int open_receives(fid_domain* domain, fi_rx_attr*, fid_ep** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_receives};
  static fi_ops_msg msg_ops{.size = sizeof(fi_ops_msg), .recv = post_receive};
  auto* r = new core_receives{};
  r->fid = {.fclass = FI_CLASS_SRX_CTX, .context = context, .ops = &ops};
  r->msg = &msg_ops;
  r->domain = &down<core_domain>(domain);
  r->at = r->domain->at;
  r->at->opened();
  *out = r;
  return 0;
}

}  // namespace gaudi::sim
