// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Fabric, domain and registered memory.
#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "device/generation.hpp"
#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

int close_memory(fid* f) {
  auto& m = of_fid<core_memory, fid_mr>(f);
  m.domain->held->place_all();
  m.domain->keys.erase(m.key);
  m.domain->at->closed();
  delete &m;
  return 0;
}

int add_memory(core_domain& d, const core_memory& what, std::uint64_t requested_key, fid_mr** out,
               void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_memory};
  const std::uint64_t key = d.chooses_keys ? d.at->net().next_number() : requested_key;
  if (d.keys.contains(key)) return -FI_ENOKEY;
  auto* m = new core_memory(what);
  m->fid = {.fclass = FI_CLASS_MR, .context = context, .ops = &ops};
  m->domain = &d;
  m->key = key;
  m->mem_desc = m;
  d.keys.emplace(m->key, m);
  d.at->opened();
  *out = m;
  return 0;
}

int register_memory(fid* f, const void* bytes, std::size_t length, std::uint64_t access,
                    std::uint64_t, std::uint64_t requested_key, std::uint64_t, fid_mr** out,
                    void* context) {
  core_memory m{};
  m.address = reinterpret_cast<std::uint64_t>(bytes);
  if (device::is_device_address(m.address)) return -FI_EFAULT;  // no memory of the process
  m.first = static_cast<std::byte*>(const_cast<void*>(bytes));
  m.length = length;
  m.access = access;
  return add_memory(of_fid<core_domain, fid_domain>(f), m, requested_key, out, context);
}

// struct fi_mr_dmabuf of libfabric 1.20 and later.
struct part_of_dmabuf {
  int fd;
  std::uint64_t offset;
  std::size_t length;
  void* base;
};

int register_dmabuf(fid* f, const fi_mr_attr* attr, std::uint64_t, fid_mr** out) {
  auto& d = of_fid<core_domain, fid_domain>(f);
  const auto& part = *reinterpret_cast<const part_of_dmabuf*>(attr->mr_iov);
  const auto bytes = d.at->net().exported(part.fd);
  if (!bytes || part.offset > bytes->size()) return -FI_EOPNOTSUPP;
  core_memory m{};
  m.address = reinterpret_cast<std::uint64_t>(part.base) + part.offset;
  m.first = bytes->data() + part.offset;
  m.length = std::min(part.length, bytes->size() - part.offset);
  m.access = attr->access;
  m.on_device = bytes;
  return add_memory(d, m, attr->requested_key, out, nullptr);
}

int close_domain(fid* f) {
  auto& d = of_fid<core_domain, fid_domain>(f);
  if (!d.keys.empty()) d.at->net().complain("a domain closed before its memory regions");
  d.at->closed();
  d.held->all.clear();
  delete &d;
  return 0;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_domain};
  static fi_ops_domain domain_ops{.size = sizeof(fi_ops_domain),
                                  .cq_open = open_completions,
                                  .endpoint = open_endpoint,
                                  .srx_ctx = open_receives};
  static fi_ops_mr mr_ops{
      .size = sizeof(fi_ops_mr), .reg = register_memory, .regattr = register_dmabuf};
  auto* d = new core_domain{};
  d->fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &ops};
  d->ops = &domain_ops;
  d->mr = &mr_ops;
  d->at = down<core_fabric>(fabric).at;
  d->held = std::make_shared<held_writes>(held_writes{.at = d->at, .all = {}});
  d->chooses_keys = (info->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0;
  d->at->opened();
  *out = d;
  return 0;
}

int close_fabric(fid* f) {
  auto& fabric = of_fid<core_fabric, fid_fabric>(f);
  fabric.at->closed();
  delete &fabric;
  return 0;
}

}  // namespace

// A process that has ended has no memory.
void held_writes::place(const one& w) {
  if (!at->is_alive() || at->net().is_lost_memory(w.target)) return;
  std::memcpy(w.target, w.bytes.data(), w.bytes.size());
  at->net().wrote(*at, w.target, w.bytes.size(), w.number, true);
}

void held_writes::place_next() {
  const one w = std::move(all.front());
  all.pop_front();
  place(w);
}

void held_writes::place_those_of_host() {
  for (const one& w : all)
    if (!w.on_device) place(w);
  std::erase_if(all, [](const one& w) { return !w.on_device; });
}

void core_domain::take_write(std::byte* target, const operation& op, bool late, bool on_device,
                             bool before_messages) {
  network& net = at->net();
  if (!on_device && (before_messages || !net.how().rdma)) {
    if (op.length != 0) std::memcpy(target, op.data.data(), op.length);
    return net.wrote(*at, target, op.length, op.number, late);
  }
  hold(op.number, target, op.data, on_device);
}

void core_domain::hold(std::uint64_t number, std::byte* target, std::vector<std::byte> bytes,
                       bool on_device) {
  held->all.push_back({number, target, std::move(bytes), on_device});
  at->net().after(at->net().how().placement, [all = held, number] {
    const auto last = std::find_if(all->all.begin(), all->all.end(),
                                   [&](const held_writes::one& w) { return w.number == number; });
    for (auto left = last == all->all.end() ? 0 : last - all->all.begin() + 1; left > 0; --left)
      all->place_next();
  });
}

const core_memory* core_domain::check_local(const void* bytes, std::size_t count,
                                            void* descriptor) {
  if (!at->net().how().rdma || count == 0) return nullptr;
  for (const auto& [key, m] : keys) {
    if (m != descriptor) continue;
    if (m->holds(reinterpret_cast<std::uint64_t>(bytes), count)) return m;
    at->net().complain("a core operation on memory outside its registration");
    return nullptr;
  }
  at->net().complain("a core operation without a registration of its memory");
  return nullptr;
}

core_domain::place core_domain::find_remote(std::uint64_t address, std::size_t count,
                                            std::uint64_t key, std::uint64_t access) {
  const auto found = keys.find(key);
  if (found == keys.end() || (found->second->access & access) != access ||
      !found->second->holds(address, count))
    return {};
  const core_memory& m = *found->second;
  return {m.first + (address - m.address), m.on_device != nullptr};
}

sockaddr_in address_of(unsigned number, unsigned interface, std::uint16_t port) noexcept {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(0x0a000001 + number + (interface << 16));
  return a;
}

unsigned interface_of(const void* address) noexcept {
  if (!address) return 0;
  sockaddr_in a{};
  std::memcpy(&a, address, sizeof a);
  return ntohl(a.sin_addr.s_addr) >> 16 & 0xff;
}

core::unique_fid<fid_fabric> network::fabric_for(host& h) const {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_fabric};
  static fi_ops_fabric fabric_ops{.size = sizeof(fi_ops_fabric),
                                  .domain = open_domain,
                                  .passive_ep = open_listener,
                                  .eq_open = open_events,
                                  .trywait = try_wait};
  auto* f = new core_fabric{};
  f->fid = {.fclass = FI_CLASS_FABRIC, .context = nullptr, .ops = &ops};
  f->ops = &fabric_ops;
  f->at = &h;
  h.opened();
  return core::unique_fid<fid_fabric>(f);
}

core::unique_info network::info_for(const host& h) const {
  core::unique_info info(fi_allocinfo());
  info->addr_format = FI_SOCKADDR_IN;
  info->ep_attr->type = FI_EP_MSG;
  info->ep_attr->max_msg_size = std::size_t{1} << 30;
  info->tx_attr->inject_size = how_.inject_size;
  info->tx_attr->iov_limit = 4;
  info->fabric_attr->prov_name = ::strdup(how_.rdma ? "verbs" : "tcp");
  info->fabric_attr->name = ::strdup("simulated");
  info->domain_attr->name = ::strdup("simulated");
  info->domain_attr->mr_mode = how_.rdma ? FI_MR_LOCAL : 0;
  const sockaddr_in here = address_of(h.number(), 0, h.port());
  info->src_addr = std::malloc(sizeof here);
  std::memcpy(info->src_addr, &here, sizeof here);
  info->src_addrlen = sizeof here;
  return info;
}

}  // namespace gaudi::sim
