// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint of the core is asked to carry.
#include <rdma/fi_errno.h>

#include <cstring>

#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

std::shared_ptr<operation> operation_of(core_endpoint& ep, const iovec* parts, void** descriptors,
                                        std::size_t count, void* context, std::uint64_t flags) {
  auto op = std::make_shared<operation>();
  network& net = ep.at->net();
  const bool injected = flags & FI_INJECT;
  op->number = net.next_number();
  op->parts = count;
  for (std::size_t i = 0; i < count; ++i) {
    op->local[i] = parts[i];
    op->length += parts[i].iov_len;
    if (net.how().rdma && descriptors && !descriptors[i])
      net.complain("a null pointer among the descriptors, which verbs follows");
    if (injected) continue;
    const core_memory* const m = ep.domain->check_local(parts[i].iov_base, parts[i].iov_len,
                                                        descriptors ? descriptors[i] : nullptr);
    if (!m && net.how().rdma) op->local[i].iov_len = 0;  // complained of: it may be nowhere
    if (!m || !m->on_device) continue;
    op->on_device[i] = true;
    op->of_device = ep.domain;
    op->local[i].iov_base =
        m->first + (reinterpret_cast<std::uint64_t>(parts[i].iov_base) - m->address);
  }
  if (injected) op->gather();  // by the CPU: the memory is the caller's again
  if (injected && op->length > net.how().inject_size)
    net.complain("an injected operation longer than the core takes");
  op->context = context;
  if (flags & FI_COMPLETION) op->queue = ep.transmits->number;
  // The peer's core acknowledges both.
  op->at_delivery = flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE);
  return op;
}

ssize_t post(core_endpoint& ep, std::shared_ptr<operation> op) {
  if (!ep.wire) return -FI_ENOTCONN;
  return ep.wire->post(ep.end, std::move(op));
}

ssize_t receive(fid_ep* f, void* bytes, std::size_t length, void* descriptor, fi_addr_t,
                void* context) {
  auto& ep = down<core_endpoint>(f);
  return post_to(ep.own, *ep.domain, {static_cast<std::byte*>(bytes), length, context}, descriptor);
}

ssize_t inject(fid_ep* f, const void* bytes, std::size_t length, fi_addr_t) {
  auto& ep = down<core_endpoint>(f);
  auto op = std::make_shared<operation>();
  op->number = ep.at->net().next_number();
  op->length = length;
  const auto* first = static_cast<const std::byte*>(bytes);
  op->data.assign(first, first + length);
  if (length > ep.at->net().how().inject_size)
    ep.at->net().complain("an injected message longer than the core takes");
  return post(ep, std::move(op));
}

ssize_t send_message(fid_ep* f, const fi_msg* m, std::uint64_t flags) {
  auto& ep = down<core_endpoint>(f);
  return post(ep, operation_of(ep, m->msg_iov, m->desc, m->iov_count, m->context, flags));
}

ssize_t send(fid_ep* f, const void* bytes, std::size_t length, void* descriptor, fi_addr_t,
             void* context) {
  const iovec part{const_cast<void*>(bytes), length};
  fi_msg m{};
  m.msg_iov = &part;
  m.desc = &descriptor;
  m.iov_count = 1;
  m.context = context;
  return send_message(f, &m, FI_COMPLETION);
}

ssize_t access(fid_ep* f, const fi_msg_rma* m, std::uint64_t flags, operation::kind what) {
  auto& ep = down<core_endpoint>(f);
  auto op = operation_of(ep, m->msg_iov, m->desc, m->iov_count, m->context, flags);
  op->what = what;
  op->address = m->rma_iov[0].addr;
  op->key = m->rma_iov[0].key;
  return post(ep, std::move(op));
}

ssize_t read_message(fid_ep* f, const fi_msg_rma* m, std::uint64_t flags) {
  network& net = down<core_endpoint>(f).at->net();
  if (net.how().reads_badly) net.complain("a read over a core that may not be read over");
  return access(f, m, flags, operation::kind::read);
}

ssize_t read(fid_ep* f, void* bytes, std::size_t length, void* descriptor, fi_addr_t,
             std::uint64_t address, std::uint64_t key, void* context) {
  const iovec part{bytes, length};
  const fi_rma_iov remote{address, length, key};
  fi_msg_rma m{};
  m.msg_iov = &part;
  m.desc = &descriptor;
  m.iov_count = 1;
  m.rma_iov = &remote;
  m.rma_iov_count = 1;
  m.context = context;
  return read_message(f, &m, FI_COMPLETION);
}

ssize_t write_message(fid_ep* f, const fi_msg_rma* m, std::uint64_t flags) {
  return access(f, m, flags, operation::kind::write);
}

}  // namespace

void operation::gather() {
  if (departed) return;
  departed = true;
  if (what == kind::read || parts == 0) return;
  if (of_device) of_device->held->place_all();
  data.resize(length);
  std::byte* at = data.data();
  for (std::size_t i = 0; i < parts; ++i) {
    const auto* const first = static_cast<const std::byte*>(local[i].iov_base);
    if (on_device[i] && of_device->at->net().is_lost_memory(first))
      std::fill_n(at, local[i].iov_len, unreadable);
    else if (local[i].iov_len != 0)
      std::memcpy(at, first, local[i].iov_len);
    at += local[i].iov_len;
  }
}

void operation::scatter() const {
  const std::byte* at = data.data();
  for (std::size_t i = 0; i < parts; ++i) {
    if (on_device[i])
      of_device->hold(number, static_cast<std::byte*>(local[i].iov_base),
                      {at, at + local[i].iov_len}, true);
    else if (local[i].iov_len != 0)
      std::memcpy(local[i].iov_base, at, local[i].iov_len);
    at += local[i].iov_len;
  }
}

fi_ops_msg* endpoint_msg_ops() noexcept {
  static fi_ops_msg ops{.size = sizeof(fi_ops_msg),
                        .recv = receive,
                        .send = send,
                        .sendmsg = send_message,
                        .inject = inject};
  return &ops;
}

fi_ops_rma* endpoint_rma_ops() noexcept {
  static fi_ops_rma ops{
      .size = sizeof(fi_ops_rma), .read = read, .readmsg = read_message, .writemsg = write_message};
  return &ops;
}

}  // namespace gaudi::sim
