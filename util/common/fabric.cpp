// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/fabric.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/failure.hpp"

namespace gaudi::common {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

constexpr std::uint32_t interface_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

// Keys are ours to choose where the provider does not; each region needs one of its own.
std::uint64_t next_key() {
  static std::uint64_t key = 0x6701;
  return key++;
}

/// Whether the provider has endpoints for host memory, at least.
bool has_endpoints(fi_info& hints) {
  hints.caps &= ~FI_HMEM;
  hints.domain_attr->mr_mode &= ~FI_MR_HMEM;
  fi_info* list = nullptr;
  const int ret = fi_getinfo(interface_version, nullptr, nullptr, 0, &hints, &list);
  const info_ptr found(list);
  return ret == 0;
}

/// Why there is no endpoint for device memory, as far as it shows from outside the provider.
std::string without_device() {
  const auto any_in = [](const char* folder) {
    std::error_code failure;
    const std::filesystem::directory_iterator first(folder, failure);
    return !failure && first != std::filesystem::directory_iterator();
  };
  const char* cause = "libhl-thunk is not found, or FI_GAUDI_DEVICE names no Gaudi of this machine";
  if (const char* named = std::getenv("FI_GAUDI_HLTHUNK"); named && *named)
    cause = "the library that FI_GAUDI_HLTHUNK names does not load or shows no Gaudi";
  else if (!any_in("/sys/class/accel") && !any_in("/sys/class/habanalabs"))
    cause = "this machine has no Gaudi, or the habanalabs driver is not loaded";
  return fmt::format("no endpoint for device memory: {}; gaudi_info --doctor says more", cause);
}

}  // namespace

void require(long ret, std::string_view call) {
  if (ret < 0) throw failure(fmt::format("{}: {}", call, fi_strerror(static_cast<int>(-ret))));
}

info_ptr find_endpoint(fi_info& hints, const std::string& source) {
  const bool device = (hints.caps & FI_HMEM) != 0;
  const bool bound = !source.empty();
  fi_info* list = nullptr;
  const int ret = fi_getinfo(interface_version, bound ? source.c_str() : nullptr, nullptr,
                             bound ? FI_SOURCE : 0, &hints, &list);
  if (ret == -FI_ENODATA && device && has_endpoints(hints)) throw failure(without_device());
  if (ret == -FI_ENODATA)
    throw failure(
        fmt::format("provider '{}' offers no reliable endpoint. Is FI_PROVIDER_PATH the folder of "
                    "its library? FI_LOG_LEVEL=warn tells more.",
                    hints.fabric_attr->prov_name));
  require(ret, "fi_getinfo");
  return info_ptr(list);
}

rdm_endpoint open_endpoint(info_ptr info, fi_cq_format format,
                           std::span<const std::uint64_t> counted) {
  rdm_endpoint opened;
  opened.info = std::move(info);
  fi_info& chosen = *opened.info;

  fid_fabric* fabric = nullptr;
  require(fi_fabric(chosen.fabric_attr, &fabric, nullptr), "fi_fabric");
  opened.fabric.reset(fabric);

  fid_domain* domain = nullptr;
  require(fi_domain(fabric, &chosen, &domain, nullptr), "fi_domain");
  opened.domain.reset(domain);

  fi_cq_attr cq_attr{};
  cq_attr.format = format;
  cq_attr.size = chosen.tx_attr->size + chosen.rx_attr->size;
  fid_cq* cq = nullptr;
  require(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
  opened.cq.reset(cq);

  fi_av_attr av_attr{};
  av_attr.type = chosen.domain_attr->av_type;
  fid_av* av = nullptr;
  require(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
  opened.av.reset(av);

  fid_ep* ep = nullptr;
  require(fi_endpoint(domain, &chosen, &ep, nullptr), "fi_endpoint");
  opened.ep.reset(ep);
  require(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  require(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
  for (const std::uint64_t kind : counted) {
    fi_cntr_attr cntr_attr{};
    cntr_attr.events = FI_CNTR_EVENTS_COMP;
    fid_cntr* cntr = nullptr;
    require(fi_cntr_open(domain, &cntr_attr, &cntr, nullptr), "fi_cntr_open");
    opened.counters.emplace_back(cntr);
    require(fi_ep_bind(ep, &cntr->fid, kind), "fi_ep_bind");
  }
  require(fi_enable(ep), "fi_enable");
  return opened;
}

const fi_gaudi_ops* find_device_ops(fid_domain* domain) {
  void* ops = nullptr;
  if (fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, &ops, nullptr) != 0) return nullptr;
  return static_cast<const fi_gaudi_ops*>(ops);
}

device_memory::device_memory(fid_domain* domain, const fi_gaudi_ops& ops, std::size_t size)
    : domain_(domain), ops_(ops) {
  require(ops_.alloc(domain_, size, &address_),
          fmt::format("allocating {} bytes of device memory", size));
}

device_memory::~device_memory() {
  ops_.free(domain_, address_);
}

fid_ptr<fid_mr> register_memory(fid_domain* domain, std::uint64_t base, std::size_t size,
                                bool device, int number) {
  const iovec range{reinterpret_cast<void*>(base), size};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } request{};
  request.attr.mr_iov = &range;
  request.attr.iov_count = 1;
  request.attr.access = all_access;
  request.attr.requested_key = next_key();
  request.attr.iface = device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  request.attr.device.synapseai = number;
  fid_mr* mr = nullptr;
  require(fi_mr_regattr(domain, &request.attr, 0, &mr),
          fmt::format("registering {} bytes of {} memory", size, device ? "device" : "host"));
  return fid_ptr<fid_mr>(mr);
}

}  // namespace gaudi::common
