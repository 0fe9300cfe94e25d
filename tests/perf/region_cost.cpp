// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What fi_mr_regattr and fi_close cost on Gaudi memory that the domain's NIC knows already. The NIC
// is one in name only, and the Gaudi is the stand-in, so that every instruction but the core's one
// call is the provider's.
//   perf_region_cost build/util/hlsim/libhl-thunk.so COUNT
#include <rdma/fi_domain.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../unit/reg/fake_nic.hpp"
#include "device/table.hpp"
#include "fi/domain.hpp"
#include "fi/fabric.hpp"

// The core takes dma-bufs since 1.20; nothing else is asked of libfabric here.
extern "C" std::uint32_t fi_version() {
  return FI_VERSION(1, 20);
}

namespace {

using namespace gaudi;

constexpr int batches = 20;
constexpr std::uint64_t length = 1 << 20;  // bytes

double nanoseconds_each(fid_domain* d, const fi_mr_attr& attr, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    fid_mr* mr = nullptr;
    if (fi_mr_regattr(d, &attr, 0, &mr) != 0 || fi_close(&mr->fid) != 0) std::exit(1);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / count;
}

/// The best of some: what disturbs only adds.
void measure(const char* what, fid_domain* d, std::uint64_t address, std::uint64_t access,
             int count) {
  const iovec range{reinterpret_cast<void*>(address), length};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = access;
  attr.iface = FI_HMEM_SYNAPSEAI;
  std::array<double, batches> times{};
  for (double& each : times) each = nanoseconds_each(d, attr, count);
  std::printf("%-24s %8.1f ns\n", what, *std::min_element(times.begin(), times.end()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s LIBHL-THUNK COUNT\n", argv[0]);
    return 2;
  }
  const int count = std::atoi(argv[2]);
  const auto device = device::table::instance().current({.library = argv[1], .device = ""});
  if (!device) return 1;
  test::fake_nic nic;
  const core::unique_info info(fi_allocinfo());
  info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;
  fi::fabric fabric(FI_VERSION(1, 17), nullptr);
  auto* const domain =
      new fi::domain(fabric.open_children(), fabric, *info, nic.release_core(), nullptr);
  const auto address = (*device)->allocate(length);
  if (!address) return 1;
  measure("local use", domain, *address, FI_SEND | FI_RECV, count);
  measure("transfers and RMA alike", domain, *address,
          FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, count);
  measure("another access by RMA", domain, *address, FI_SEND | FI_RECV | FI_REMOTE_READ, count);
  std::printf("registrations by the NIC: %u\n", nic.asked());
  return fi_close(&domain->fid);
}
