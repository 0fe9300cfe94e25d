// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fi_domain.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/params.hpp"
#include "collect.hpp"
#include "copy/dma_engine.hpp"
#include "core/get_info.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::info {
namespace {

constexpr std::uint64_t probe_size = std::uint64_t{1} << 20;

using domain_ptr = std::unique_ptr<core::inner_domain>;

/// A NIC's domain, null where libfabric offers none.
domain_ptr open_domain(const std::string& nic) {
  auto info = core::get_info({.domain_name = nic, .core = base::core_choice::verbs});
  if (!info) return nullptr;
  fi_freeinfo(std::exchange((*info)->next, nullptr));
  auto opened = core::inner_domain::open(*std::move(info));
  return opened ? *std::move(opened) : nullptr;
}

std::vector<domain_ptr> open_domains(std::vector<nic_fact>& nics) {
  std::vector<domain_ptr> domains;
  for (auto& nic : nics) {
    domains.push_back(open_domain(nic.name));
    nic.offered = domains.back() != nullptr;
  }
  return domains;
}

/// Memory of an open device, freed with the object.
class probe_memory {
 public:
  explicit probe_memory(device::device& on) : on_(on), address_(on.allocate(probe_size)) {}
  probe_memory(const probe_memory&) = delete;
  probe_memory& operator=(const probe_memory&) = delete;
  ~probe_memory() {
    if (address_) static_cast<void>(on_.free(*address_));
  }
  [[nodiscard]] int code() const { return address_ ? 0 : address_.code(); }
  [[nodiscard]] device::location where() const { return *on_.find(*address_, probe_size); }

 private:
  device::device& on_;
  base::result<std::uint64_t> address_;
};

void probe_device(device::device& on, std::size_t index, const std::vector<domain_ptr>& domains,
                  report& r) {
  const probe_memory memory(on);
  if (memory.code() != 0) {
    r.unprobed.push_back({index, memory.code()});
    return;
  }
  for (std::size_t nic = 0; nic < domains.size(); ++nic) {
    if (!domains[nic]) continue;
    const auto tried =
        reg::try_to_register(*domains[nic], on, memory.where(), FI_REMOTE_READ | FI_REMOTE_WRITE);
    r.probes.push_back({.device = index,
                        .nic = nic,
                        .zero_copy = tried.code == 0,
                        .code = tried.code,
                        .why = tried.why});
  }
}

void measure_copies(const std::shared_ptr<device::device>& on, std::size_t index, report& r) {
  if (!r.devices[index].copies) return;
  const auto engine =
      copy::dma_engine::for_device(on, copy::engine_config::of(base::params::get()));
  if (engine) r.copies.push_back({index, (*engine)->table()});
}

}  // namespace

void probe(const std::shared_ptr<const hl::thunk>& thunk, report& r) {
  r.probed = true;
  const auto domains = open_domains(r.nics);
  if (!thunk) return;
  for (std::size_t i = 0; i < r.devices.size(); ++i) {
    const device::device_spec which{device::device_spec::by_index{r.devices[i].index}};
    const auto opened = device::device::open(thunk, which, base::params::get().device_timeout);
    if (!opened) {
      r.unprobed.push_back({i, opened.code()});
      continue;
    }
    probe_device(**opened, i, domains, r);
    measure_copies(*opened, i, r);
  }
}

}  // namespace gaudi::info
