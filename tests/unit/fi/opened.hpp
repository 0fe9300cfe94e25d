// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "../child.hpp"
#include "core/fid.hpp"
#include "device/device_registry.hpp"
#include "fi/common/fabric.hpp"
#include "fi/common/provider_context.hpp"
#include "fi/getinfo.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/open_fabric.hpp"

namespace gaudi::fi::test {

using core::unique_fid;
using gaudi::test::holds_in_child;

inline constexpr int direct_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// A fabric and a domain of the provider on loopback. `context`: as fi_fabric has it, or one of the
/// test's own.
struct opened {
  explicit opened(int mr_mode = direct_mode, std::uint32_t version = FI_VERSION(1, 17),
                  std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA,
                  const provider_context& context = provider_context::of_process()) {
    set_device_probe([] { return false; });
    const core::unique_info hints(fi_allocinfo());
    hints->mode = ~0ULL;
    hints->caps = caps;
    hints->domain_attr->mr_mode = mr_mode;
    fi_info* found = nullptr;
    EXPECT_EQ(getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints.get(), &found), 0);
    info.reset(found);
    info->fabric_attr->api_version = version;
    fabric.reset(new gaudi::fi::fabric(fabric_fid(version, nullptr), context));
    fid_domain* d = nullptr;
    EXPECT_EQ(fi_domain(fabric.get(), info.get(), &d, nullptr), 0);
    domain.reset(d);
  }
  ~opened() { set_device_probe(nullptr); }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;

  unique_fid<fid_cq> open_cq(fi_cq_format format, fi_wait_obj wait = FI_WAIT_NONE) const {
    fi_cq_attr attr{};
    attr.format = format;
    attr.wait_obj = wait;
    fid_cq* cq = nullptr;
    EXPECT_EQ(fi_cq_open(domain.get(), &attr, &cq, nullptr), 0);
    return unique_fid<fid_cq>(cq);
  }
  unique_fid<fid_av> open_av() const {
    fi_av_attr attr{};
    attr.type = FI_AV_TABLE;
    fid_av* av = nullptr;
    EXPECT_EQ(fi_av_open(domain.get(), &attr, &av, nullptr), 0);
    return unique_fid<fid_av>(av);
  }
  unique_fid<fid_ep> open_ep() const {
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(domain.get(), info.get(), &ep, nullptr), 0);
    return unique_fid<fid_ep>(ep);
  }
  [[nodiscard]] fi_gaudi_ops& ops() const {
    void* found = nullptr;
    EXPECT_EQ(fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, &found, nullptr), 0);
    return *static_cast<fi_gaudi_ops*>(found);
  }

  core::unique_info info;
  unique_fid<fid_fabric> fabric;
  unique_fid<fid_domain> domain;
};

/// An endpoint in a domain, enabled, with a queue and a vector of its own. `enabled`: what
/// fi_enable says.
struct endpoint_set {
  explicit endpoint_set(const opened& o, std::uint64_t queue_flags = FI_TRANSMIT | FI_RECV,
                        fi_wait_obj wait = FI_WAIT_NONE, int enabled = 0)
      : cq(o.open_cq(FI_CQ_FORMAT_TAGGED, wait)), av(o.open_av()), ep(o.open_ep()) {
    EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, queue_flags), 0);
    EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
    EXPECT_EQ(fi_enable(ep.get()), enabled);
  }

  fi_addr_t meet(const endpoint_set& other) const {
    std::byte name[64];
    std::size_t length = sizeof name;
    EXPECT_EQ(fi_getname(&other.ep->fid, name, &length), 0);
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(av.get(), name, 1, &address, 0, nullptr), 1);
    return address;
  }

  unique_fid<fid_cq> cq;
  unique_fid<fid_av> av;
  unique_fid<fid_ep> ep;
};

/// Repeats a call, reading nothing from `queue` but letting its domain progress, until it gives
/// something else than -FI_EAGAIN.
template <class Call>
ssize_t retry(fid_cq* queue, Call&& call) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ssize_t ret = call();
  while (ret == -FI_EAGAIN && std::chrono::steady_clock::now() < give_up) {
    fi_cq_read(queue, nullptr, 0);
    ret = call();
  }
  return ret;
}

/// A simulated Gaudi2 of this process alone is the device of the domain, and of no other object:
/// the process's own registry has none.
class with_device : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_up(""); }
  static void set_up(const char* list) {
    devices().clear();  // what tests before had it look for
    setenv("HLSIM_DIR", folder(), 1);
    setenv("HLSIM_DEVICES", "8", 1);  // read once in the process
    ASSERT_TRUE(devices().current({.library = GAUDI_HLSIM, .device = list}));
  }
  static void TearDownTestSuite() { devices().clear(); }
  static device::device_registry& devices() {
    static device::device_registry all;
    return all;
  }
  static provider_context context() { return {base::params::get(), devices()}; }
  /// One for all suites: the stand-in knows its files by their inodes, which a new folder's may
  /// have again.
  static const char* folder() {
    struct temporary {
      std::string path =
          std::filesystem::temp_directory_path() / ("hlsim-fi-" + std::to_string(getpid()));
      temporary() { std::filesystem::create_directories(path); }
      ~temporary() { std::filesystem::remove_all(path); }
    };
    static const temporary made;
    return made.path.c_str();
  }

  std::uint64_t allocate(std::uint64_t length) {
    std::uint64_t address = 0;
    EXPECT_EQ(o_.ops().alloc(o_.domain.get(), length, &address), 0);
    return address;
  }

  opened o_{direct_mode, FI_VERSION(1, 17), FI_MSG | FI_TAGGED | FI_RMA, context()};
};

}  // namespace gaudi::fi::test
