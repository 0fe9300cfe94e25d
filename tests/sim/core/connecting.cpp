// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Listeners and the handshake: three steps, each of which takes its time and finds the world
// changed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "proto/wire/hello.hpp"
#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

std::vector<std::byte> bytes_of(const void* first, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(first);
  return {bytes, bytes + length};
}

int close_listener(fid* f) {
  auto& l = of_fid<core_listener, fid_pep>(f);
  auto& listeners = l.at->net().listeners();
  if (const auto mine = listeners.find(l.port); mine != listeners.end() && mine->second == &l)
    listeners.erase(mine);
  l.at->closed();
  delete &l;
  return 0;
}

int bind_listener(fid* f, fid* to, std::uint64_t) {
  of_fid<core_listener, fid_pep>(f).events = &of_fid<core_events, fid_eq>(to);
  return 0;
}

int listen(fid_pep* f) {
  auto& l = down<core_listener>(f);
  if (!l.at->net().listeners().emplace(l.port, &l).second) return -FI_EADDRINUSE;
  l.is_listening = true;
  return 0;
}

int name_of_listener(fid* f, void* out, std::size_t* length) {
  auto& l = of_fid<core_listener, fid_pep>(f);
  const sockaddr_in name = address_of(l.at->number(), l.interface, l.port);
  std::memcpy(out, &name, std::min(*length, sizeof name));
  *length = sizeof name;
  return 0;
}

void tell_of_refusal(wire_connection& wire, int error, std::vector<std::byte> said) {
  wire_end& end = wire.ends[0];
  if (!end.ep || !end.at->is_alive() || end.has_heard) return;
  end.has_heard = true;
  end.ep->events->entries.push_back({0, &end.ep->fid, nullptr, error, std::move(said)});
}

int reject(fid_pep*, fid* handle, const void* said, std::size_t length) {
  auto& asked = static_cast<core_request&>(*handle);
  refuse_request(asked, {static_cast<const std::byte*>(said), length});
  return 0;
}

// As long as there is no link the kernel sends it again and again.
constexpr delay sent_again{100'000'000, 300'000'000};

// The request is at the listener's machine.
void request_arrives(const std::shared_ptr<wire_connection>& wire, std::uint16_t port,
                     const std::vector<std::byte>& said) {
  network& net = wire->net;
  if (wire->is_cut || !wire->ends[0].ep || !wire->ends[0].at->is_alive()) return;
  const auto found = net.listeners().find(port);
  if (found == net.listeners().end()) {
    net.after(net.how().connecting, [wire] { tell_of_refusal(*wire, FI_ECONNREFUSED, {}); });
    return;
  }
  core_listener& l = *found->second;
  const unsigned from = wire->ends[0].at->number();
  const bool is_within = wire->ends[0].at == l.at;  // one machine, where there is no link
  if (!is_within && (!net.is_plugged_in(from, wire->interfaces[0]) ||
                     !net.is_plugged_in(l.at->number(), l.interface))) {
    net.after(sent_again, [wire, port, said] { request_arrives(wire, port, said); });
    return;
  }
  wire->ends[1].at = l.at;
  wire->interfaces[1] = l.interface;
  auto* asked = new core_request{};
  asked->fclass = FI_CLASS_CONNREQ;
  asked->wire = wire;
  wire->asked = asked;
  l.at->opened();
  auto info = net.info_for(*l.at);
  info->handle = asked;
  const sockaddr_in origin = address_of(from, wire->interfaces[0], 1);
  info->dest_addr = std::malloc(sizeof origin);
  info->dest_addrlen = sizeof origin;
  std::memcpy(info->dest_addr, &origin, sizeof origin);
  net.note(from, l.at->number(), [] { return "connection request"; });
  l.events->entries.push_back({FI_CONNREQ, &l.fid, info.release(), 0, said});
}

bool asks_for_rail(const void* said, std::size_t length) {
  proto::hello h{};
  return proto::check_hello(said, length, h) == proto::wire::reject_reason::none &&
         (h.flags & proto::wire::is_rail) != 0;
}

int connect(fid_ep* f, const void* address, const void* said, std::size_t length) {
  auto& ep = down<core_endpoint>(f);
  network& net = ep.at->net();
  sockaddr_in to{};
  std::memcpy(&to, address, sizeof to);
  auto wire = std::make_shared<wire_connection>(net);
  wire->ends[0].ep = &ep;
  wire->ends[0].at = ep.at;
  wire->interfaces = {ep.interface, interface_of(address)};
  wire->is_rail = asks_for_rail(said, length);
  ep.wire = wire;
  ep.end = 0;
  net.connections().push_back(wire);
  auto hello = bytes_of(said, length);
  net.alter_hello(*ep.at, hello);
  net.after(net.how().connecting, [wire, port = ntohs(to.sin_port), hello = std::move(hello)] {
    request_arrives(wire, port, hello);
  });
  return 0;
}

void acceptor_is_up(wire_connection& wire) {
  wire_end& here = wire.ends[1];
  if (!here.ep || here.has_heard || !here.at->is_alive()) return;
  here.was_told = true;
  here.ep->events->entries.push_back({FI_CONNECTED, &here.ep->fid, nullptr, 0, {}});
}

// The answer is at the end that asked.
void answer_arrives(const std::shared_ptr<wire_connection>& wire, std::vector<std::byte> said) {
  network& net = wire->net;
  if (wire->is_cut) return;
  wire_end& there = wire->ends[0];
  if (!there.ep || !there.at->is_alive()) {
    net.after(net.how().notice, [wire] { wire->hear_of_end(1); });
    return;
  }
  there.is_up = true;
  there.was_told = true;
  net.note(wire->ends[1].at->number(), there.at->number(), [] { return "connection accepted"; });
  there.ep->events->entries.push_back({FI_CONNECTED, &there.ep->fid, nullptr, 0, std::move(said)});
  if (net.how().rdma) net.after(net.how().connecting, [wire] { acceptor_is_up(*wire); });
  if (!wire->has_link()) wire->lose_link();
}

int accept(fid_ep* f, const void* said, std::size_t length) {
  auto& ep = down<core_endpoint>(f);
  network& net = ep.at->net();
  const auto wire = ep.wire;
  if (!wire || !wire->asked) return -FI_EINVAL;
  delete std::exchange(wire->asked, nullptr);
  ep.at->closed();
  wire->ends[1].is_up = true;
  if (wire->is_cut) net.after(net.how().notice, [wire] { wire->hear_of_end(1); });
  // What this end sends comes behind its answer.
  const nanoseconds when = net.now() + net.some(net.how().connecting);
  wire->ends[1].last_arrival = when;
  auto hello = bytes_of(said, length);
  net.alter_hello(*ep.at, hello);
  net.at(when, [wire, hello = std::move(hello)] { answer_arrives(wire, hello); });
  if (!net.how().rdma) net.after(net.how().connecting, [wire] { acceptor_is_up(*wire); });
  return 0;
}

}  // namespace

void refuse_request(core_request& asked, std::span<const std::byte> said) {
  const auto wire = asked.wire;
  wire->asked = nullptr;
  wire->ends[1].at->closed();
  delete &asked;
  if (wire->is_cut) return;
  network& net = wire->net;
  std::vector<std::byte> answer(said.begin(), said.end());
  net.alter_hello(*wire->ends[1].at, answer);
  net.after(net.how().connecting, [wire, hello = std::move(answer)]() mutable {
    tell_of_refusal(*wire, FI_ECONNREFUSED, std::move(hello));
  });
}

// Without a port it gets one of its own.
int open_listener(fid_fabric* fabric, fi_info* info, fid_pep** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_listener, .bind = bind_listener};
  static fi_ops_cm cm_ops{
      .size = sizeof(fi_ops_cm), .getname = name_of_listener, .listen = listen, .reject = reject};
  auto* l = new core_listener{};
  l->fid = {.fclass = FI_CLASS_PEP, .context = context, .ops = &ops};
  l->cm = &cm_ops;
  l->at = down<core_fabric>(fabric).at;
  l->port = ntohs(static_cast<const sockaddr_in*>(info->src_addr)->sin_port);
  l->interface = interface_of(info->src_addr);
  if (l->port == 0) l->port = l->at->net().next_port();
  l->at->opened();
  *out = l;
  return 0;
}

fi_ops_cm* endpoint_cm_ops() noexcept {
  static fi_ops_cm ops{.size = sizeof(fi_ops_cm), .connect = connect, .accept = accept};
  return &ops;
}

}  // namespace gaudi::sim
