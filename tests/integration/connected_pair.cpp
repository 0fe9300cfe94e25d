// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connected_pair.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace gaudi::test {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
// The first interface with dma-bufs, which device memory needs here.
constexpr std::uint32_t with_dmabufs = FI_VERSION(1, 20);

info_ptr find(bool device) {
  const info_ptr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_RMA | (device ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (device ? FI_MR_HMEM : 0);
  hints->fabric_attr->prov_name = strdup(provider().c_str());
  fi_info* found = nullptr;
  must(fi_getinfo(device ? with_dmabufs : FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(),
                  &found),
       "fi_getinfo");
  return info_ptr(found);
}

template <class Done>
void until(Done&& done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("nothing comes");
  }
}

}  // namespace

connected_pair::connected_pair(bool device) : device_(device), info_(find(device)) {
  fid_fabric* f = nullptr;
  must(fi_fabric(info_->fabric_attr, &f, nullptr), "fi_fabric");
  fabric_.reset(f);
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  fid_eq* eq = nullptr;
  must(fi_eq_open(f, &attr, &eq, nullptr), "fi_eq_open");
  events_.reset(eq);
  fid_domain* d = nullptr;
  must(fi_domain(f, info_.get(), &d, nullptr), "fi_domain");
  domain_.reset(d);
  connect();
}

void connected_pair::connect() {
  fid_pep* p = nullptr;
  must(fi_passive_ep(fabric_.get(), info_.get(), &p, nullptr), "fi_passive_ep");
  listener_.reset(p);
  must(fi_pep_bind(p, &events_->fid, 0), "fi_pep_bind");
  must(fi_listen(p), "fi_listen");
  std::array<std::byte, 64> name{};
  std::size_t length = name.size();
  must(fi_getname(&p->fid, name.data(), &length), "fi_getname");
  open_end(sender, *info_);
  must(fi_connect(sender.ep.get(), name.data(), nullptr, 0), "fi_connect");
  const info_ptr request(next_event(FI_CONNREQ));
  open_end(receiver, *request);
  must(fi_accept(receiver.ep.get(), nullptr, 0), "fi_accept");
  next_event(FI_CONNECTED);
  next_event(FI_CONNECTED);
}

void connected_pair::open_end(end& e, fi_info& with) {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_DATA;
  fid_cq* cq = nullptr;
  must(fi_cq_open(domain_.get(), &attr, &cq, nullptr), "fi_cq_open");
  e.cq.reset(cq);
  fid_ep* ep = nullptr;
  must(fi_endpoint(domain_.get(), &with, &ep, nullptr), "fi_endpoint");
  e.ep.reset(ep);
  must(fi_ep_bind(ep, &events_->fid, 0), "fi_ep_bind");
  must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  must(fi_enable(ep), "fi_enable");
}

fi_info* connected_pair::next_event(std::uint32_t wanted) {
  alignas(fi_eq_cm_entry) std::array<std::byte, 256> buffer{};
  std::uint32_t event = 0;
  must(fi_eq_sread(events_.get(), &event, buffer.data(), buffer.size(), 20000, 0), "fi_eq_sread");
  if (event != wanted) throw std::runtime_error("another event while connecting");
  return reinterpret_cast<const fi_eq_cm_entry*>(buffer.data())->info;
}

fi_gaudi_ops& connected_pair::ops() const {
  void* found = nullptr;
  must(fi_open_ops(&domain_->fid, FI_GAUDI_DOMAIN_OPS, 0, &found, nullptr), "fi_open_ops");
  return *static_cast<fi_gaudi_ops*>(found);
}

void connected_pair::progress() const {
  for (const end* e : {&sender, &receiver}) fi_cq_read(e->cq.get(), nullptr, 0);
}

fi_cq_tagged_entry connected_pair::wait(const end& e) {
  fi_cq_tagged_entry entry{};
  until([&] {
    const ssize_t ret = fi_cq_read(e.cq.get(), &entry, 1);
    if (ret == -FI_EAGAIN) {
      progress();
      return false;
    }
    must(ret, "fi_cq_read");
    return true;
  });
  return entry;
}

int connected_pair::wait_for_error(const end& e) {
  fi_cq_tagged_entry entry{};
  until([&] {
    const ssize_t ret = fi_cq_read(e.cq.get(), &entry, 1);
    if (ret == -FI_EAVAIL) return true;
    progress();
    return false;
  });
  fi_cq_err_entry error{};
  must(fi_cq_readerr(e.cq.get(), &error, 0), "fi_cq_readerr");
  return error.err;
}

pair_memory::pair_memory(connected_pair& pair, std::size_t size) : pair_(pair) {
  if (pair.device()) {
    must(pair.ops().alloc(pair.domain(), size, &base_), "alloc");
  } else {
    host_.resize(size);
    base_ = reinterpret_cast<std::uint64_t>(host_.data());
  }
  const iovec range{at(0), size};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = all_access;
  attr.iface = pair.device() ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  static std::uint64_t next_key = 1;
  attr.requested_key = next_key++;
  fid_mr* mr = nullptr;
  must(fi_mr_regattr(pair.domain(), &attr, 0, &mr), "fi_mr_regattr");
  mr_.reset(mr);
}

pair_memory::~pair_memory() {
  mr_.reset();
  if (pair_.device()) pair_.ops().free(pair_.domain(), base_);
}

std::uint64_t pair_memory::remote(std::size_t offset) const {
  return (pair_.info().domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? base_ + offset : offset;
}

void pair_memory::put(std::size_t offset, const std::vector<std::byte>& bytes) {
  if (!pair_.device()) {
    std::copy(bytes.begin(), bytes.end(), host_.begin() + static_cast<std::ptrdiff_t>(offset));
    return;
  }
  must(pair_.ops().copy(pair_.domain(), base_ + offset,
                        reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(),
                        FI_GAUDI_HOST_TO_DEVICE),
       "copy to the device");
}

std::vector<std::byte> pair_memory::get(std::size_t offset, std::size_t size) const {
  std::vector<std::byte> bytes(size);
  if (!pair_.device()) {
    std::memcpy(bytes.data(), host_.data() + offset, size);
    return bytes;
  }
  must(pair_.ops().copy(pair_.domain(), reinterpret_cast<std::uint64_t>(bytes.data()),
                        base_ + offset, size, FI_GAUDI_DEVICE_TO_HOST),
       "copy from the device");
  return bytes;
}

}  // namespace gaudi::test
