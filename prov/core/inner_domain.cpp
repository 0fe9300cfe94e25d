// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/inner_domain.hpp"

#include <rdma/fi_errno.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "base/cancellation_deferred.hpp"
#include "base/driver_call.hpp"
#include "base/log.hpp"
#include "base/probes.hpp"

namespace gaudi::core {
namespace {

// Names that libfabric 1.17's headers do not have yet (fi_mr(3), since 1.20).
constexpr std::uint64_t from_dmabuf = std::uint64_t{1} << 40;  // FI_MR_DMABUF
constexpr std::uint64_t top_bit = std::uint64_t{1} << 63;      // set in no key of the core's
struct mr_dmabuf {
  int fd;
  std::uint64_t offset;
  std::size_t len;
  void* base_addr;
};

std::string_view nic_of(const fi_info& info) noexcept {
  return info.domain_attr->name ? info.domain_attr->name : "";
}

}  // namespace

bool is_rdma(const fi_info& info) noexcept {
  return std::strcmp(info.fabric_attr->prov_name, "verbs") == 0;
}

base::result<std::unique_ptr<inner_domain>> inner_domain::open(unique_info info) {
  fid_fabric* fabric = nullptr;
  if (const int ret = fi_fabric(info->fabric_attr, &fabric, nullptr)) {
    GAUDI_WARN(DOMAIN, "core provider %s cannot open its fabric %s: %s\n",
               info->fabric_attr->prov_name, info->fabric_attr->name, fi_strerror(-ret));
    return base::error{ret};
  }
  return open_over(unique_fid<fid_fabric>(fabric), std::move(info));
}

base::result<std::unique_ptr<inner_domain>> inner_domain::open_over(unique_fid<fid_fabric> fabric,
                                                                    unique_info info,
                                                                    base::random_source random,
                                                                    std::uint32_t libfabric) {
  std::unique_ptr<inner_domain> self(new inner_domain);
  self->info_ = std::move(info);
  self->fabric_ = std::move(fabric);
  self->random_ = random;
  self->ask_for_addresses_and_keys();
  if (const auto opened = self->open_domain(self->fabric_.get()); !opened) return opened.failure();
  self->libfabric_ = libfabric;
  return self;
}

base::result<std::unique_ptr<inner_domain>> inner_domain::open_in(fid_fabric* fabric,
                                                                  unique_info info) {
  std::unique_ptr<inner_domain> self(new inner_domain);
  self->info_ = std::move(info);
  if (const auto opened = self->open_domain(fabric); !opened) return opened.failure();
  return self;
}

base::result<std::unique_ptr<inner_domain>> inner_domain::open_beside(const inner_domain& first,
                                                                      unique_info info) {
  std::unique_ptr<inner_domain> self(new inner_domain);
  self->info_ = std::move(info);
  self->random_ = first.random_;
  self->libfabric_ = first.libfabric_;
  self->ask_for_addresses_and_keys();
  if (const auto opened = self->open_domain(first.fabric()); !opened) return opened.failure();
  return self;
}

// tcp reports no mode at all where these are offered, and would then take offsets from us; with
// them set it behaves as verbs does. The keys that tcp would choose count up from 1, and whoever is
// connected could try them all.
void inner_domain::ask_for_addresses_and_keys() noexcept {
  info_->domain_attr->mr_mode |= FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;
  if (is_rdma(*info_)) info_->domain_attr->mr_mode |= FI_MR_PROV_KEY;
}

base::result<void> inner_domain::open_domain(fid_fabric* fabric) {
  fid_domain* domain = nullptr;
  if (const int ret = fi_domain(fabric, info_.get(), &domain, nullptr)) {
    GAUDI_WARN(DOMAIN, "core provider %s cannot open its domain %s: %s\n",
               info_->fabric_attr->prov_name, info_->domain_attr->name, fi_strerror(-ret));
    return base::error{ret};
  }
  domain_.reset(domain);
  in_ = fabric;
  needs_local_mr_ = (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  over_rdma_ = is_rdma(*info_);
  return {};
}

int inner_domain::close() noexcept {
  const int ret = fi_close(&domain_->fid);
  if (ret == 0) static_cast<void>(domain_.release());
  return ret;
}

base::result<inner_mr> inner_domain::register_memory(void* base, std::size_t length,
                                                     std::uint64_t access) {
  const base::cancellation_deferred until_it_is_registered;
  // Of the other cores none asks a driver.
  std::optional<base::outstanding::driver_call> shown;
  if (over_rdma_)
    shown.emplace(base::outstanding::call_kind::register_memory, -1, length, nic_of(*info_));
  fid_mr* mr = nullptr;
  int ret;
  do {
    const std::uint64_t key = chooses_keys() ? random_.next() & ~top_bit : 0;
    ret = fi_mr_reg(domain_.get(), base, length, access, 0, key, 0, &mr, nullptr);
  } while (ret == -FI_ENOKEY && chooses_keys());
  base::probes::registration(reinterpret_cast<std::uintptr_t>(base), length, 0, ret);
  if (ret) return base::error{ret};
  return inner_mr(unique_fid<fid_mr>(mr));
}

bool inner_domain::chooses_keys() const noexcept {
  return (info_->domain_attr->mr_mode & FI_MR_PROV_KEY) == 0;
}

bool inner_domain::takes_dmabufs() const noexcept {
  // An older one does not look at the flag, and would take the descriptor for an address.
  return libfabric() >= FI_VERSION(1, 20) && over_rdma();
}

base::result<inner_mr> inner_domain::register_dmabuf(const dmabuf_range& range,
                                                     std::uint64_t access) {
  const base::cancellation_deferred until_it_is_registered;
  mr_dmabuf where{range.fd, range.offset, range.length, reinterpret_cast<void*>(range.base_addr)};
  // Newer releases read members that this version's structure does not have.
  union {
    fi_mr_attr attr;
    std::byte space[256];
  } padded{};
  padded.attr.mr_iov = reinterpret_cast<const iovec*>(&where);  // a union with `dmabuf` since 1.20
  padded.attr.iov_count = 1;
  padded.attr.access = access;
  // libfabric knows no Gaudi without libSynapse; the core's domain is opened without FI_HMEM.
  padded.attr.iface = FI_HMEM_SYSTEM;
  const base::outstanding::driver_call shown(base::outstanding::call_kind::register_dmabuf, -1,
                                             range.length, nic_of(*info_));
  fid_mr* mr = nullptr;
  const int ret = fi_mr_regattr(domain_.get(), &padded.attr, from_dmabuf, &mr);
  base::probes::registration(range.base_addr, range.length, 1, ret);
  if (ret) return base::error{ret};
  return inner_mr(unique_fid<fid_mr>(mr));
}

}  // namespace gaudi::core
