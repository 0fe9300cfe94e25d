// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_gaudi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi::common {

template <class T>
struct fid_close {
  void operator()(T* object) const { fi_close(&object->fid); }
};
template <class T>
using fid_ptr = std::unique_ptr<T, fid_close<T>>;

struct info_delete {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using info_ptr = std::unique_ptr<fi_info, info_delete>;

/// Throws a failure that names the call when `ret` is a negative libfabric error code.
void require(long ret, std::string_view call);

/// The first endpoint that the hints have; `source`, where not empty, is the address to bind to.
/// Without any it fails with the likely cause, also for device memory (FI_HMEM).
info_ptr find_endpoint(fi_info& hints, const std::string& source);

/// An RDM endpoint with one completion queue, its counters, and all that it needs, in the order of
/// opening: destruction closes them in reverse.
struct rdm_endpoint {
  info_ptr info;
  fid_ptr<fid_fabric> fabric;
  fid_ptr<fid_domain> domain;
  fid_ptr<fid_cq> cq;
  fid_ptr<fid_av> av;
  std::vector<fid_ptr<fid_cntr>> counters;
  fid_ptr<fid_ep> ep;
};

/// Opens and enables it, with completions in this format, and a counter for each of these kinds of
/// operation (FI_SEND and so on), in their order.
rdm_endpoint open_endpoint(info_ptr info, fi_cq_format format,
                           std::span<const std::uint64_t> counted = {});

/// The provider's operations on device memory; null where it has none.
const fi_gaudi_ops* find_device_ops(fid_domain* domain);

/// Device memory of the domain's device, freed in the end. The domain must outlive it.
class device_memory {
 public:
  device_memory(fid_domain* domain, const fi_gaudi_ops& ops, std::size_t size);
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory();
  std::uint64_t address() const { return address_; }

 private:
  fid_domain* domain_;
  const fi_gaudi_ops& ops_;
  std::uint64_t address_ = 0;
};

/// Registers memory for all that messages and RMA do with it; `number`: of the device that it is
/// on.
fid_ptr<fid_mr> register_memory(fid_domain* domain, std::uint64_t base, std::size_t size,
                                bool device, int number = 0);

}  // namespace gaudi::common
