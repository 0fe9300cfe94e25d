// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What fi_mr_regattr and fi_close cost on Gaudi memory that the domain's NIC knows already. The NIC
// is one in name only, and the Gaudi is the stand-in, so that every instruction but the core's one
// call is the provider's.
//   perf_region_cost build/util/hlsim/libhl-thunk.so COUNT [CASE]
#include <rdma/fi_domain.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../unit/reg/fake_nic.hpp"
#include "device/device_registry.hpp"
#include "fi/common/fabric.hpp"
#include "fi/open_fabric.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/open_domain.hpp"

// The core takes dma-bufs since 1.20; nothing else is asked of libfabric here.
extern "C" std::uint32_t fi_version() {
  return FI_VERSION(1, 20);
}

namespace {

using namespace gaudi;

constexpr int batches = 20;
constexpr std::uint64_t length = 1 << 20;  // bytes

}  // namespace

/// Callgrind counts from its start to its end.
extern "C" __attribute__((noinline)) void counted(fid_domain* d, const fi_mr_attr& attr,
                                                  int count) {
  for (int i = 0; i < count; ++i) {
    fid_mr* mr = nullptr;
    if (fi_mr_regattr(d, &attr, 0, &mr) != 0 || fi_close(&mr->fid) != 0) std::exit(1);
  }
}

namespace {

double nanoseconds_each(fid_domain* d, const fi_mr_attr& attr, int count) {
  const auto start = std::chrono::steady_clock::now();
  counted(d, attr, count);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / count;
}

/// The best of some: what disturbs only adds.
double best_of_some(fid_domain* d, std::uint64_t address, std::uint64_t access, int count) {
  const iovec range{reinterpret_cast<void*>(address), length};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = access;
  attr.iface = FI_HMEM_SYNAPSEAI;
  std::array<double, batches> times{};
  counted(d, attr, 1);
  // Two calls that nothing else here makes: what strace shows between them is the registrations'.
  ::getppid();
  for (double& each : times) each = nanoseconds_each(d, attr, count);
  ::getppid();
  return *std::min_element(times.begin(), times.end());
}

struct region_case {
  const char* name;
  const char* what;
  std::uint64_t access;
};
constexpr std::array<region_case, 3> cases{{
    {"local", "local use", FI_SEND | FI_RECV},
    {"alike", "transfers and RMA alike",
     FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE},
    {"other", "another access by RMA", FI_SEND | FI_RECV | FI_REMOTE_READ},
}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s LIBHL-THUNK COUNT [local|alike|other]\n", argv[0]);
    return 2;
  }
  const int count = std::atoi(argv[2]);
  device::device_registry devices;
  const auto device = devices.current({.library = argv[1], .device = ""});
  if (!device) return 1;
  test::fake_nic nic;
  const core::unique_info info(fi_allocinfo());
  info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;
  fi::fabric fabric(fi::fabric_fid(FI_VERSION(1, 17), nullptr), {base::params::get(), devices});
  auto* const domain = new fi::domain(fi::domain_fid(nullptr), fabric, *info, nic.release_core());
  const auto address = (*device)->allocate(length);
  if (!address) return 1;
  for (const region_case& one : cases) {
    if (argc == 4 && std::strcmp(argv[3], one.name) != 0) continue;
    std::printf("%-24s %8.1f ns\n", one.what, best_of_some(domain, *address, one.access, count));
  }
  std::printf("registrations by the NIC: %u\n", nic.asked());
  return fi_close(&domain->fid);
}
