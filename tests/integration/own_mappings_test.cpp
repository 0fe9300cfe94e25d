// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An application that has its Gaudi to itself and uses libhl-thunk for all of it: what the provider
// knows of its memory, with and without libgaudi-fi-preload.so before libhl-thunk (LD_PRELOAD).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "captured_log.hpp"
#include "hlsim.hpp"
#include "node.hpp"

namespace gaudi::test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

bool is_watched() {
  return dlsym(RTLD_DEFAULT, "gaudi_fi_preload_subscribe") != nullptr;
}

/// A device, and what is allocated and mapped there, by the application.
class own_device {
 public:
  own_device() : fd_(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr)) { must(fd_, "opening"); }
  ~own_device() { hlthunk_close(fd_); }
  int fd() const { return fd_; }

  std::uint64_t map(std::uint64_t size) {
    handle_ = hlthunk_device_memory_alloc(fd_, size, 0, true, false);
    return hlthunk_device_memory_map(fd_, handle_, 0);
  }
  int unmap(std::uint64_t va) { return hlthunk_memory_unmap(fd_, va); }
  int free() { return hlthunk_device_memory_free(fd_, handle_); }

 private:
  int fd_;
  std::uint64_t handle_ = 0;
};

bool is_known(const node& n, std::uint64_t va, std::uint64_t len) {
  fi_gaudi_addr_attr facts{};
  return n.ops().query_addr(n.domain(), va, len, &facts) == 0 && facts.adopted != 0;
}

fi_gaudi_dmabuf exported(const node& n, std::uint64_t va, std::uint64_t len) {
  fi_gaudi_dmabuf made{};
  must(n.ops().export_dmabuf(n.domain(), va, len, &made), "exporting");
  return made;
}

fid_mr* registered(const node& n, std::uint64_t va, std::size_t len) {
  fid_mr* mr = nullptr;
  const iovec range{reinterpret_cast<void*>(va), len};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = FI_SEND | FI_RECV;
  attr.iface = FI_HMEM_SYNAPSEAI;
  must(fi_mr_regattr(n.domain(), &attr, 0, &mr), "registering");
  return mr;
}

TEST(own_mappings, are_known_by_themselves_where_they_are_watched) {
  run({.ranks = 1}, [](rank&) {
    own_device gaudi;
    const std::uint64_t before = gaudi.map(2 * mib);
    node n({.device = true});
    must(n.ops().adopt_device(n.domain(), gaudi.fd()), "adopting");
    const std::uint64_t after = gaudi.map(mib);
    EXPECT_EQ(is_watched(), is_known(n, before, 2 * mib));
    EXPECT_EQ(is_watched(), is_known(n, after, mib));
    EXPECT_FALSE(is_known(n, after, mib + 1));
  });
}

TEST(own_mappings, of_another_device_stay_unknown) {
  run({.ranks = 1}, [](rank&) {
    own_device gaudi, other;
    node n({.device = true});
    must(n.ops().adopt_device(n.domain(), gaudi.fd()), "adopting");
    const std::uint64_t va = other.map(mib);
    EXPECT_FALSE(is_known(n, va, mib));
    EXPECT_EQ(0, other.unmap(va));
  });
}

// The provider keeps an export for the next registration; the driver unmaps nothing that is
// exported.
TEST(own_mappings, can_be_unmapped_where_they_are_watched) {
  run({.ranks = 1}, [](rank&) {
    own_device gaudi;
    node n({.device = true});
    must(n.ops().adopt_device(n.domain(), gaudi.fd()), "adopting");
    const std::uint64_t va = gaudi.map(mib);
    const fi_gaudi_range whole{.addr = va, .len = mib, .map_base = va, .map_len = mib};
    if (!is_watched()) must(n.ops().adopt_range(n.domain(), &whole), "adopting the range");
    close(exported(n, va, mib).fd);
    if (!is_watched()) {
      EXPECT_NE(0, gaudi.unmap(va));
      EXPECT_TRUE(is_known(n, va, mib));
      must(n.ops().release_range(n.domain(), va), "releasing the range");
    }
    EXPECT_EQ(0, gaudi.unmap(va));
    EXPECT_FALSE(is_known(n, va, mib));
    EXPECT_EQ(0, gaudi.free());
  });
}

TEST(own_mappings, stay_known_while_a_region_keeps_them_mapped) {
  if (!is_watched()) GTEST_SKIP() << "nobody watches";
  run({.ranks = 1}, [](rank&) {
    own_device gaudi;
    node n({.device = true});
    must(n.ops().adopt_device(n.domain(), gaudi.fd()), "adopting");
    const std::uint64_t va = gaudi.map(mib);
    close(exported(n, va, mib).fd);
    fid_mr* const mr = registered(n, va, mib);
    EXPECT_NE(0, gaudi.unmap(va));
    EXPECT_TRUE(is_known(n, va, mib));
    must(fi_close(&mr->fid), "closing the region");
    EXPECT_EQ(0, gaudi.unmap(va));
    EXPECT_FALSE(is_known(n, va, mib));
  });
}

// The warning is for who unmaps what is in use, and one is enough.
TEST(own_mappings, are_warned_of_when_they_are_unmapped_in_use_and_only_then) {
  if (!is_watched()) GTEST_SKIP() << "nobody watches";
  run({.ranks = 1, .environment = {{"FI_LOG_LEVEL", "warn"}}}, [](rank&) {
    own_device gaudi;
    node n({.device = true});
    must(n.ops().adopt_device(n.domain(), gaudi.fd()), "adopting");
    const captured_log log;
    EXPECT_EQ(0, gaudi.unmap(gaudi.map(mib)));
    EXPECT_EQ("", log.text());
    const std::uint64_t va = gaudi.map(mib);
    close(exported(n, va, mib).fd);
    fid_mr* const mr = registered(n, va, mib);
    EXPECT_NE(0, gaudi.unmap(va));
    const std::string warning = log.text();
    EXPECT_NE(std::string::npos, warning.find("that a memory region still covers"));
    EXPECT_NE(0, gaudi.unmap(va));
    EXPECT_EQ(warning, log.text());
    must(fi_close(&mr->fid), "closing the region");
  });
}

}  // namespace
}  // namespace gaudi::test
