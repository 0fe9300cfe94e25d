// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// FI_MR_DMABUF of memory that the provider does not know, in both kinds of domain, with a NIC that
// takes dma-bufs in name only.
#include <fcntl.h>
#include <sys/mman.h>

#include "../reg/fake_nic.hpp"
#include "fi/common/device_region.hpp"
#include "fi/msg/msg_domain.hpp"
#include "fi/msg/open_msg_domain.hpp"
#include "fi/open_fabric.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/open_domain.hpp"
#include "opened.hpp"
#include "reg/key_table.hpp"

namespace gaudi::fi::test {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t base_address = 0x1001700000000000;
constexpr std::uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// struct fi_mr_dmabuf, since libfabric 1.20.
struct dmabuf {
  int fd;
  std::uint64_t offset;
  std::size_t len;
  void* base_addr;
};

struct registered {
  int code;
  unique_fid<fid_mr> mr;
};

class given_dmabuf : public testing::Test {
 protected:
  using nic_mr = gaudi::test::fake_nic::registered;

  given_dmabuf() : info_(fi_allocinfo()), file_(::memfd_create("a dma-buf", MFD_CLOEXEC)) {
    gaudi::test::fake_nic::knows_dmabufs = true;
    info_->domain_attr->mr_mode = direct_mode | FI_MR_HMEM;
    nic_.made = [this](nic_mr& mr) { last_ = &mr; };
  }
  ~given_dmabuf() override {
    EXPECT_EQ(nic_.live(), 0U);
    gaudi::test::fake_nic::knows_dmabufs = false;
  }

  registered reg(fid_domain& d, std::uint64_t access, std::uint64_t base = base_address,
                 std::size_t length = 100, fi_hmem_iface iface = FI_HMEM_SYSTEM) const {
    const dmabuf given{file_.get(), page, length, reinterpret_cast<void*>(base)};
    fi_mr_attr attr{};
    attr.mr_iov = reinterpret_cast<const iovec*>(&given);
    attr.iov_count = 1;
    attr.access = access;
    attr.iface = iface;
    fid_mr* mr = nullptr;
    const int ret = fi_mr_regattr(&d, &attr, from_dmabuf, &mr);
    return {ret, unique_fid<fid_mr>(mr)};
  }
  unique_fid<fid_domain> open_domain() {
    return unique_fid<fid_domain>(
        new domain(domain_fid(nullptr), fabric_, *info_, nic_.release_core()));
  }
  unique_fid<fid_domain> open_connected_domain() {
    return unique_fid<fid_domain>(
        new msg_domain(msg_domain_fid(nullptr), fabric_, nullptr, true, nic_.release_core()));
  }

  gaudi::test::fake_nic nic_;
  nic_mr* last_ = nullptr;
  device::device_registry devices_;
  fabric fabric_{fabric_fid(FI_VERSION(1, 17), nullptr), {base::params::get(), devices_}};
  core::unique_info info_;
  base::scoped_fd file_;
};

TEST_F(given_dmabuf, of_unknown_gaudi_memory_is_for_the_nic_alone) {
  const auto d = open_domain();
  const auto a = reg(*d, remote);
  ASSERT_EQ(a.code, 0);
  EXPECT_EQ(last_->address, base_address + page);
  EXPECT_EQ(last_->length, 100U);
  EXPECT_EQ(fi_mr_key(a.mr.get()), last_->key) << "peers use it without us";
  const auto& region = *static_cast<reg::region*>(fi_mr_desc(a.mr.get()));
  EXPECT_TRUE(region.on_device());
  EXPECT_EQ(region.core_for(remote)->descriptor(), last_);
}

TEST_F(given_dmabuf, lets_our_own_transfers_at_it_as_they_need) {
  const auto d = open_domain();
  for (const auto& [wanted, granted] :
       {std::pair<std::uint64_t, std::uint64_t>{FI_SEND, FI_REMOTE_READ},
        {FI_RECV, FI_REMOTE_WRITE},
        {FI_WRITE, 0},
        {FI_READ, 0}}) {
    const auto a = reg(*d, wanted);
    ASSERT_EQ(a.code, 0);
    EXPECT_EQ(last_->access & remote, granted) << wanted;
    EXPECT_TRUE(fi_mr_key(a.mr.get()) & gaudi::reg::key_table::software_bit || granted == 0);
  }
}

TEST_F(given_dmabuf, is_let_go_of_with_its_last_region) {
  const auto d = open_domain();
  auto a = reg(*d, FI_SEND);
  auto b = reg(*d, FI_SEND);
  EXPECT_EQ(nic_.asked(), 1U);
  a.mr.reset();
  EXPECT_EQ(nic_.live(), 1U);
  b.mr.reset();
  EXPECT_EQ(nic_.live(), 0U);
}

TEST_F(given_dmabuf, with_addresses_of_the_cpu_s_is_refused_among_messages) {
  const auto d = open_domain();
  for (const auto iface : {FI_HMEM_SYSTEM, FI_HMEM_SYNAPSEAI})
    EXPECT_LT(reg(*d, FI_SEND, 0x7f0000000000, 100, iface).code, 0);
  EXPECT_EQ(reg(*d, FI_SEND, base_address, 0).code, -FI_EINVAL);
  EXPECT_EQ(nic_.asked(), 0U);
}

TEST_F(given_dmabuf, that_the_nic_refuses_leaves_nothing_behind) {
  const auto d = open_domain();
  nic_.refuse = [] { return -FI_EOPNOTSUPP; };
  EXPECT_EQ(reg(*d, FI_SEND).code, -FI_EOPNOTSUPP);
}

TEST_F(given_dmabuf, is_the_core_s_with_connected_endpoints_whatever_its_addresses) {
  const auto d = open_connected_domain();
  for (const std::uint64_t base : {base_address, std::uint64_t{0}, std::uint64_t{0x7f0000000000}}) {
    for (const auto iface : {FI_HMEM_SYSTEM, FI_HMEM_SYNAPSEAI, FI_HMEM_CUDA}) {
      const auto a = reg(*d, FI_SEND | FI_REMOTE_READ, base, 100, iface);
      ASSERT_EQ(a.code, 0);
      EXPECT_EQ(last_->address, base + page);
      EXPECT_EQ(last_->access & remote, FI_REMOTE_READ) << "no more than was asked for";
      EXPECT_EQ(fi_mr_desc(a.mr.get()), last_);
      EXPECT_EQ(fi_mr_key(a.mr.get()), last_->key);
      const auto b = reg(*d, FI_RECV | FI_REMOTE_READ, base, 100, iface);
      EXPECT_EQ(fi_mr_desc(b.mr.get()), last_);
      EXPECT_EQ(nic_.live(), 1U);
    }
  }
  EXPECT_EQ(reg(*d, FI_SEND, base_address, 0).code, -FI_EINVAL);
  nic_.refuse = [] { return -FI_ENOSYS; };
  EXPECT_EQ(reg(*d, FI_SEND).code, -FI_ENOSYS);
}

/// The same NIC, with memory of the process's own device.
class own_memory : public with_device {
 protected:
  own_memory() : info_(fi_allocinfo()) {
    gaudi::test::fake_nic::knows_dmabufs = true;
    nic_.made = [this](const auto& mr) { granted_ = mr.access & remote; };
    address_ = allocate(1 << 20);
  }
  ~own_memory() override {
    EXPECT_EQ(o_.ops().free(o_.domain.get(), address_), 0);
    gaudi::test::fake_nic::knows_dmabufs = false;
  }
  unique_fid<fid_mr> reg(fid_domain& d, std::uint64_t address, std::uint64_t access) {
    const iovec range{reinterpret_cast<void*>(address), 4096};
    fi_mr_attr attr{};
    attr.mr_iov = &range;
    attr.iov_count = 1;
    attr.access = access;
    attr.iface = FI_HMEM_SYNAPSEAI;
    fid_mr* mr = nullptr;
    EXPECT_EQ(fi_mr_regattr(&d, &attr, 0, &mr), 0);
    return unique_fid<fid_mr>(mr);
  }

  gaudi::test::fake_nic nic_;
  std::uint64_t granted_ = ~0ULL;
  fabric fabric_{fabric_fid(FI_VERSION(1, 17), nullptr), context()};
  core::unique_info info_;
  std::uint64_t address_ = 0;
};

// There, a key is good for the whole allocation, and no transfer of ours needs one.
TEST_F(own_memory, of_connected_endpoints_is_open_to_peers_as_far_as_was_asked_for) {
  const unique_fid<fid_domain> d(
      new msg_domain(msg_domain_fid(nullptr), fabric_, nullptr, true, nic_.release_core()));
  for (const std::uint64_t access : std::initializer_list<std::uint64_t>{
           FI_SEND | FI_RECV, FI_READ | FI_WRITE, FI_SEND | FI_REMOTE_READ, remote}) {
    const std::uint64_t address = allocate(1 << 20);  // what was registered before may be kept
    reg(*d, address, access).reset();
    EXPECT_EQ(granted_, access & remote) << access;
    granted_ = ~0ULL;
    EXPECT_EQ(o_.ops().free(o_.domain.get(), address), 0);
  }
}

TEST_F(own_memory, of_a_pool_of_connected_endpoints_likewise) {
  const unique_fid<fid_domain> d(
      new msg_domain(msg_domain_fid(nullptr), fabric_, nullptr, true, nic_.release_core()));
  void* found = nullptr;
  ASSERT_EQ(fi_open_ops(&d->fid, FI_GAUDI_DOMAIN_OPS, 0, &found, nullptr), 0);
  const auto& ops = *static_cast<fi_gaudi_ops*>(found);
  std::uint64_t pool = 0, piece = 0;
  ASSERT_EQ(ops.pool_create(d.get(), 1 << 20, FI_SEND | FI_RECV, &pool), 0);
  EXPECT_EQ(granted_, 0U);
  ASSERT_EQ(ops.pool_alloc(d.get(), pool, 4096, &piece), 0);
  const unsigned asked = nic_.asked();
  reg(*d, piece, FI_SEND | FI_RECV).reset();
  EXPECT_EQ(nic_.asked(), asked) << "the pool's registration serves it";
  EXPECT_EQ(ops.pool_free(d.get(), pool, piece), 0);
  EXPECT_EQ(ops.pool_destroy(d.get(), pool), 0);
}

}  // namespace
}  // namespace gaudi::fi::test
