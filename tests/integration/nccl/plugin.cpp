// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plugin.hpp"

#include <cstring>

namespace gaudi::test::nccl {
namespace {

// Names of options that libfabric 1.17's header does not have yet (1.19).
constexpr int shared_memory_permitted = 11;

// sendrecv_get_hints() of nccl_ofi_sendrecv.cpp, with GPU direct and without cuda_flush.
void sendrecv_hints(fi_info& hints) {
  hints.caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TAGGED | FI_MSG | FI_HMEM | FI_RMA | FI_READ;
  hints.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_VIRT_ADDR |
                               FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints.domain_attr->threading = FI_THREAD_SAFE;
  hints.tx_attr->msg_order = FI_ORDER_SAS;
  hints.rx_attr->msg_order = FI_ORDER_SAS;
}

// get_hints() of nccl_ofi_rdma.cpp.
void rdma_hints(fi_info& hints) {
  hints.caps = FI_MSG | FI_RMA | FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM;
  hints.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_HMEM | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                               FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints.domain_attr->threading = FI_THREAD_COMPLETION;
  hints.domain_attr->cq_data_size = 4;
}

// prov_filter_by_match() of nccl_ofi_ofiutils.cpp.
bool matches(const fi_info& a, const fi_info& b) {
  return a.caps == b.caps && a.mode == b.mode && a.addr_format == b.addr_format &&
         a.ep_attr->type == b.ep_attr->type && a.ep_attr->protocol == b.ep_attr->protocol &&
         a.ep_attr->protocol_version == b.ep_attr->protocol_version &&
         std::strcmp(a.fabric_attr->prov_name, b.fabric_attr->prov_name) == 0 &&
         std::strcmp(a.fabric_attr->name, b.fabric_attr->name) == 0;
}

void keep_matching(fi_info& first) {
  fi_info* last = &first;
  while (last->next) {
    if (matches(first, *last->next)) {
      last = last->next;
      continue;
    }
    fi_info* const dropped = last->next;
    last->next = std::exchange(dropped->next, nullptr);
    fi_freeinfo(dropped);
  }
}

}  // namespace

// nccl_net_ofi_sendrecv_init() and nccl_net_ofi_rdma_init(), which ask for 1.18 where there is no
// dma-buf to export; then nccl_ofi_ofiutils_get_providers().
info_ptr choose(protocol p) {
  const info_ptr hints(fi_allocinfo());
  p == protocol::sendrecv ? sendrecv_hints(*hints) : rdma_hints(*hints);
  hints->domain_attr->mr_key_size = 2;  // ofi_nccl_mr_key_size()
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  fi_info* found = nullptr;
  const std::uint32_t version =
      FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) ? FI_VERSION(1, 17) : FI_VERSION(1, 18);
  if (fi_getinfo(version, nullptr, nullptr, 0, hints.get(), &found) != 0) return nullptr;
  keep_matching(*found);
  return info_ptr(found);
}

fid_ptr<fid_fabric> open_fabric(const fi_info& info) {
  fid_fabric* fabric = nullptr;
  must(fi_fabric(info.fabric_attr, &fabric, nullptr), "fi_fabric");
  return fid_ptr<fid_fabric>(fabric);
}

fid_ptr<fid_domain> open_domain(fid_fabric* fabric, fi_info* info) {
  fid_domain* domain = nullptr;
  must(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
  return fid_ptr<fid_domain>(domain);
}

// ofi_nccl_cq_size() is 12288.
fid_ptr<fid_cq> open_queue(fid_domain* domain, fi_cq_format format) {
  fi_cq_attr attr{};
  attr.format = format;
  attr.size = 12288;
  fid_cq* queue = nullptr;
  must(fi_cq_open(domain, &attr, &queue, nullptr), "fi_cq_open");
  return fid_ptr<fid_cq>(queue);
}

fid_ptr<fid_mr> register_memory(fid_domain* domain, std::span<std::byte> range,
                                std::uint64_t access, bool device) {
  const iovec where{range.data(), range.size()};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } request{};
  request.attr.mr_iov = &where;
  request.attr.iov_count = 1;
  request.attr.access = access;
  request.attr.iface = device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  fid_mr* mr = nullptr;
  must(fi_mr_regattr(domain, &request.attr, 0, &mr), "fi_mr_regattr");
  return fid_ptr<fid_mr>(mr);
}

endpoint::endpoint(fi_info* info, fid_domain* domain, fid_cq* queue) {
  fi_av_attr attr{};
  fid_av* av = nullptr;
  must(fi_av_open(domain, &attr, &av, nullptr), "fi_av_open");
  av_.reset(av);
  fid_ep* ep = nullptr;
  must(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
  ep_.reset(ep);
  must(fi_ep_bind(ep, &queue->fid, FI_TRANSMIT | FI_RECV), "binding the queue");
  must(fi_ep_bind(ep, &av->fid, 0), "binding the vector");
  const bool permitted = false;
  const int ret =
      fi_setopt(&ep->fid, FI_OPT_ENDPOINT, shared_memory_permitted, &permitted, sizeof permitted);
  if (ret != -FI_EOPNOTSUPP && ret != -FI_ENOPROTOOPT) must(ret, "FI_OPT_SHARED_MEMORY_PERMITTED");
  must(fi_enable(ep), "fi_enable");
}

endpoint_name endpoint::name() const {
  endpoint_name name{};
  std::size_t length = name.size();
  must(fi_getname(&ep_->fid, name.data(), &length), "fi_getname");
  return name;
}

fi_addr_t endpoint::insert(const endpoint_name& peer) const {
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(av_.get(), peer.data(), 1, &address, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  return address;
}

device_memory::device_memory(fid_domain* domain, std::size_t size) : domain_(domain), size_(size) {
  void* ops = nullptr;
  must(fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, &ops, nullptr), "fi_open_ops");
  ops_ = static_cast<const fi_gaudi_ops*>(ops);
  must(ops_->alloc(domain, size, &address_), "allocating device memory");
}

device_memory::~device_memory() {
  ops_->free(domain_, address_);
}

void device_memory::put(const std::vector<std::byte>& bytes) {
  must(ops_->copy(domain_, address_, reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(),
                  FI_GAUDI_HOST_TO_DEVICE),
       "copying to the device");
}

std::vector<std::byte> device_memory::get(std::size_t size) const {
  std::vector<std::byte> bytes(size);
  must(ops_->copy(domain_, reinterpret_cast<std::uint64_t>(bytes.data()), address_, size,
                  FI_GAUDI_DEVICE_TO_HOST),
       "copying from the device");
  return bytes;
}

}  // namespace gaudi::test::nccl
