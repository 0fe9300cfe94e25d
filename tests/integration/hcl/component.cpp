// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "component.hpp"

#include <fcntl.h>

#include <chrono>
#include <cstddef>
#include <cstring>

namespace gaudi::test::hcl {
namespace {

constexpr std::uint64_t from_dmabuf = std::uint64_t{1} << 40;  // FI_MR_DMABUF, libfabric 1.20
constexpr std::chrono::seconds max_retry{10};                  // HCL_OFI_MAX_RETRY_DURATION

/// struct fi_mr_dmabuf, libfabric 1.20.
struct mr_dmabuf {
  int fd;
  std::uint64_t offset;
  std::size_t len;
  void* base_addr;
};

// ofi_rdm_component_t::calculate_max_tag().
std::uint64_t max_tag_of(const fi_info& info) {
  constexpr int min_bits = 33;
  int leading_zeros = 0;
  int bits = 64;
  while (!((info.ep_attr->mem_tag_format << leading_zeros++) & (std::uint64_t{1} << 63)) &&
         bits >= min_bits)
    --bits;
  if (bits < min_bits) throw std::runtime_error("the provider leaves too few bits of a tag");
  return (std::uint64_t{1} << (bits - 1)) - 1;
}

request& request_of(void* op_context) {
  return *reinterpret_cast<request*>(static_cast<char*>(op_context) - offsetof(request, context));
}

// RETRY_ON_EAGAIN.
template <class Call, class Meanwhile>
void retry(const char* what, Call call, Meanwhile meanwhile) {
  const auto end = std::chrono::steady_clock::now() + max_retry;
  ssize_t ret = call();
  while (ret == -FI_EAGAIN && std::chrono::steady_clock::now() < end) {
    meanwhile();
    ret = call();
  }
  must(ret, what);
}

}  // namespace

component::component(fi_info* info, int module_id, bool gaudi_direct)
    : info_(info),
      gaudi_direct_(gaudi_direct),
      max_tag_(max_tag_of(*info)),
      tag_(static_cast<std::uint64_t>(module_id) << 28),
      fabric_(create_fabric(*info)),
      domain_(create_domain(fabric_.get(), info)),
      fabric_single_(create_fabric(*info)),
      domain_single_(create_domain(fabric_single_.get(), info)),
      entries_(burst) {
  if (gaudi_direct) {  // IF_GDR
    flush_fabric_ = create_fabric(*info);
    flush_domain_ = create_domain(flush_fabric_.get(), info);
    flush_cq_ = create_cq(flush_domain_.get());
    flush_av_ = create_av(flush_domain_.get());
    flush_ep_ = create_ep(info, flush_domain_.get(), flush_cq_.get(), flush_av_.get());
    flush_address_ = create_address(flush_ep_.get(), flush_av_.get());
  }
  cq_ = create_cq(domain_.get());
  cq_single_ = create_cq(domain_single_.get());
}

fid_ptr<fid_fabric> component::create_fabric(const fi_info& info) {
  fid_fabric* fabric = nullptr;
  must(fi_fabric(info.fabric_attr, &fabric, nullptr), "fi_fabric");
  return fid_ptr<fid_fabric>(fabric);
}

fid_ptr<fid_domain> component::create_domain(fid_fabric* fabric, fi_info* info) {
  fid_domain* domain = nullptr;
  must(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
  return fid_ptr<fid_domain>(domain);
}

// Size 0, no wait object, and a CPU near the Gaudi.
fid_ptr<fid_cq> component::create_cq(fid_domain* domain) {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  attr.flags = FI_AFFINITY;
  attr.signaling_vector = 0;
  fid_cq* cq = nullptr;
  must(fi_cq_open(domain, &attr, &cq, nullptr), "fi_cq_open");
  return fid_ptr<fid_cq>(cq);
}

fid_ptr<fid_av> component::create_av(fid_domain* domain) {
  fi_av_attr attr{};
  attr.type = FI_AV_UNSPEC;
  fid_av* av = nullptr;
  must(fi_av_open(domain, &attr, &av, nullptr), "fi_av_open");
  return fid_ptr<fid_av>(av);
}

fid_ptr<fid_ep> component::create_ep(fi_info* info, fid_domain* domain, fid_cq* cq, fid_av* av) {
  fid_ep* opened = nullptr;
  must(fi_endpoint(domain, info, &opened, nullptr), "fi_endpoint");
  fid_ptr<fid_ep> ep(opened);
  must(fi_ep_bind(opened, &cq->fid, FI_SEND | FI_RECV), "binding the queue");
  must(fi_ep_bind(opened, &av->fid, 0), "binding the vector");
  must(fi_enable(opened), "fi_enable");
  return ep;
}

fi_addr_t component::create_address(fid_ep* ep, fid_av* av) {
  std::array<char, 56> name{};
  std::size_t length = name.size();
  must(fi_getname(&ep->fid, name.data(), &length), "fi_getname");
  fi_addr_t address = 0;
  if (fi_av_insert(av, name.data(), 1, &address, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  return address;
}

// FI_SEND | FI_RECV for all, and with FI_MR_DMABUF the interface is SynapseAI's.
fid_ptr<fid_mr> component::create_mr(fid_domain* domain, std::uint64_t data, std::size_t size,
                                     fi_hmem_iface iface, int dmabuf_fd) {
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } request{};
  const mr_dmabuf dmabuf{dmabuf_fd, 0, size, reinterpret_cast<void*>(data)};
  const iovec range{reinterpret_cast<void*>(data), size};
  request.attr.mr_iov = dmabuf_fd > 0 ? reinterpret_cast<const iovec*>(&dmabuf) : &range;
  request.attr.iov_count = 1;
  request.attr.access = FI_SEND | FI_RECV;
  request.attr.iface = iface;
  fid_mr* mr = nullptr;
  must(fi_mr_regattr(domain, &request.attr, dmabuf_fd > 0 ? from_dmabuf : 0, &mr), "fi_mr_regattr");
  return fid_ptr<fid_mr>(mr);
}

// The dma-buf begins at base + offset, the flush region is registered with `base`.
void component::register_pool(const pool& memory, export_function* export_dmabuf) {
  flush_remote_buffer_ = memory.base;
  const int fd =
      export_dmabuf(memory.device_fd, memory.base, memory.size, memory.offset, O_RDWR | O_CLOEXEC);
  must(fd, "hlthunk_device_mapped_memory_export_dmabuf_fd");
  dmabuf_.fd = fd;
  flush_local_ =
      create_mr(flush_domain_.get(), reinterpret_cast<std::uint64_t>(&flush_local_buffer_),
                sizeof flush_local_buffer_, FI_HMEM_SYSTEM, 0);
  flush_remote_ = create_mr(flush_domain_.get(), flush_remote_buffer_, sizeof flush_local_buffer_,
                            FI_HMEM_SYNAPSEAI, fd);
  const std::uint64_t first = memory.base + memory.offset;
  mr_ = create_mr(domain_.get(), first, memory.size, FI_HMEM_SYNAPSEAI, fd);
  mr_single_ = create_mr(domain_single_.get(), first, memory.size, FI_HMEM_SYNAPSEAI, fd);
}

void component::register_host(void* base, std::size_t size) {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  mr_ = create_mr(domain_.get(), address, size, FI_HMEM_SYSTEM, 0);
  mr_single_ = create_mr(domain_single_.get(), address, size, FI_HMEM_SYSTEM, 0);
}

component::endpoint_set& component::acquire_resources(unsigned set) {
  const auto [at, is_new] = endpoints_.try_emplace(set);
  endpoint_set& e = at->second;
  if (!is_new) return e;
  fid_domain* const domain = set == single_set ? domain_single_.get() : domain_.get();
  e.addresses = create_av(domain);
  e.endpoint = create_ep(info_, domain, queue_of(set), e.addresses.get());
  fid_mr* const mr = set == single_set ? mr_single_.get() : mr_.get();
  if (!mr) return e;
  e.descriptor = fi_mr_desc(mr);
  if (!e.descriptor) throw std::runtime_error("a region without a descriptor");
  return e;
}

fi_addr_t component::address_of(endpoint_set& e, const std::array<char, 56>& name) {
  const std::vector<char> key(name.begin(), name.end());
  const auto known = e.known.find(key);
  if (known != e.known.end()) return known->second;
  fi_addr_t address = 0;
  if (fi_av_insert(e.addresses.get(), name.data(), 1, &address, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  return e.known[key] = address;
}

listener component::listen(unsigned set) {
  endpoint_set& e = acquire_resources(set);
  listener own;
  own.set = set;
  own.tag = ++tag_;  // next_tag()
  std::size_t length = own.name.size();
  must(fi_getname(&e.endpoint->fid, own.name.data(), &length), "fi_getname");
  address_of(e, own.name);
  return own;
}

// The name goes without a descriptor, as a tagged message with all bits above the tag set.
comm component::connect(const listener& peer) {
  endpoint_set& e = acquire_resources(peer.set);
  const comm made{peer.tag, address_of(e, peer.name), peer.set};
  request r;
  std::array<char, 56> name{};
  std::size_t length = name.size();
  must(fi_getname(&e.endpoint->fid, name.data(), &length), "fi_getname");
  fid_cq* const cq = queue_of(peer.set);
  retry(
      "sending the connect message",
      [&] {
        return fi_tsend(e.endpoint.get(), name.data(), name.size(), nullptr, made.remote,
                        made.tag | ~max_tag_, &r.context);
      },
      [&] { progress(cq); });
  while (r.now != request::state::completed) progress(cq);
  return made;
}

comm component::accept(listener& own) {
  endpoint_set& e = acquire_resources(own.set);
  request r;
  r.accepted = &own.accepted;
  std::array<char, 56> name{};
  fid_cq* const cq = queue_of(own.set);
  retry(
      "posting the buffer for a connect message",
      [&] {
        return fi_trecv(e.endpoint.get(), name.data(), name.size(), nullptr, FI_ADDR_UNSPEC,
                        own.tag | ~max_tag_, 0, &r.context);
      },
      [&] { progress(cq); });
  while (!own.accepted) progress(cq);
  return {own.tag, 0, own.set};
}

void component::send(const comm& to, std::uint64_t address, std::size_t size, request& r) {
  endpoint_set& e = acquire_resources(to.set);
  ssize_t ret = -FI_EAGAIN;
  while (ret == -FI_EAGAIN) {
    progress(queue_of(to.set));
    ret = fi_tsend(e.endpoint.get(), reinterpret_cast<void*>(address), size, e.descriptor,
                   to.remote, to.tag, &r.context);
  }
  must(ret, "fi_tsend");
}

void component::receive(const comm& from, std::uint64_t address, std::size_t size, request& r) {
  endpoint_set& e = acquire_resources(from.set);
  r.receives = true;
  ssize_t ret = -FI_EAGAIN;
  while (ret == -FI_EAGAIN) {
    progress(queue_of(from.set));
    ret = fi_trecv(e.endpoint.get(), reinterpret_cast<void*>(address), size, e.descriptor,
                   FI_ADDR_UNSPEC, from.tag, 0, &r.context);
  }
  must(ret, "fi_trecv");
}

void component::wait(request& r, unsigned set) {
  while (r.now == request::state::pending) progress(queue_of(set));
  if (r.now == request::state::failed) throw std::runtime_error("a request ended in error");
}

// ofi_progress().
void component::progress(fid_cq* cq) {
  const ssize_t count = fi_cq_read(cq, entries_.data(), burst);
  if (count == -FI_EAGAIN) return;
  if (count == -FI_EAVAIL) {
    union {
      fi_cq_err_entry entry;
      std::array<std::byte, 256> room;
    } error{};
    must(fi_cq_readerr(cq, &error.entry, 0), "fi_cq_readerr");
    request_of(error.entry.op_context).now = request::state::failed;
    throw std::runtime_error(
        fi_cq_strerror(cq, error.entry.prov_errno, error.entry.err_data, nullptr, 0));
  }
  must(count, "fi_cq_read");
  process_completions(entries_, static_cast<std::size_t>(count));
}

// Flags must be set, control messages are told by their tags, and the first receive of a batch is
// followed by a flush.
void component::process_completions(const std::vector<fi_cq_tagged_entry>& entries,
                                    std::size_t count) {
  bool first_receive = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (entries[i].flags == 0) throw std::runtime_error("a completion without flags");
    request& r = request_of(entries[i].op_context);
    r.now = request::state::completed;
    r.size = entries[i].len;
    if (first_receive && r.receives) {
      first_receive = false;
      flush();
    }
    if ((entries[i].tag & ~max_tag_) && (entries[i].flags & FI_RECV)) *r.accepted = true;
  }
}

// process_first_recv_completion() and _flush(): four bytes read from the endpoint itself, which has
// no FI_RMA, by a key that lets nobody read.
void component::flush() {
  if (!gaudi_direct_ || !flush_remote_) return;
  const std::uint64_t key = fi_mr_key(flush_remote_.get());
  if (key == FI_KEY_NOTAVAIL) throw std::runtime_error("the flush region has no key");
  request r;
  retry(
      "fi_read to flush",
      [&] {
        return fi_read(flush_ep_.get(), &flush_local_buffer_, sizeof flush_local_buffer_,
                       fi_mr_desc(flush_local_.get()), flush_address_, flush_remote_buffer_, key,
                       &r.context);
      },
      [&] { progress_flush(); });
  while (r.now == request::state::pending) progress_flush();
  ++flushes_;
}

// ofi_flush_progress().
void component::progress_flush() {
  fi_cq_tagged_entry entry{};
  const ssize_t count = fi_cq_read(flush_cq_.get(), &entry, 1);
  if (count == -FI_EAGAIN) return;
  must(count, "fi_cq_read of the flush");
  request_of(entry.op_context).now = request::state::completed;
}

}  // namespace gaudi::test::hcl
