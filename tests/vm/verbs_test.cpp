// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An RDMA device and the stand-in's exports, without the provider between them: in which order they
// may go, and what may not be reached.
#include "loopback.hpp"
#include "simulation.hpp"

namespace vm_test {
namespace {

using namespace hlsim_test;

constexpr uint64_t size = 4 * mib;
constexpr int flags = O_RDWR | O_CLOEXEC;
const environment small{{"HLSIM_HBM", "64M"}, {"HLSIM_HBM_PAGE", "4M"}};

int export_all(const device_page& hbm) {
  return hlthunk_device_mapped_memory_export_dmabuf_fd(hbm.device, hbm.va, size, 0, flags);
}

/// An allocation that an RDMA device has registered; the dma-buf's descriptor is closed.
struct registered_page {
  registered_page(const loopback& nic, int device) : hbm(device) {
    const int fd = export_all(hbm);
    mr = nic.register_dmabuf(fd, size, hbm.va);
    EXPECT_NE(mr, nullptr) << std::strerror(errno);
    ::close(fd);
  }
  [[nodiscard]] place at(uint64_t offset) const { return {hbm.va + offset, mr->rkey}; }
  device_page hbm;
  mr_ptr mr;
};

/// Host memory that both the RDMA device and the copy engine reach.
struct registered_host {
  registered_host(const loopback& nic, int device, size_t bytes)
      : buffer(device, bytes), mr(nic.register_host(buffer.data(), bytes)) {}
  void fill(char seed) {
    for (size_t i = 0; i < buffer.size(); ++i)
      buffer.data()[i] = static_cast<char>(i * 7 + i / 251 + static_cast<size_t>(seed));
  }
  [[nodiscard]] place start() const {
    return {reinterpret_cast<uintptr_t>(buffer.data()), mr->lkey};
  }
  host_buffer buffer;
  mr_ptr mr;
};

void expect_same(const registered_host& a, const registered_host& b) {
  EXPECT_EQ(std::memcmp(a.buffer.data(), b.buffer.data(), a.buffer.size()), 0);
}

TEST(dmabuf, cannot_be_mapped_by_the_cpu) {
  simulate(small, [] {
    const open_device device;
    const device_page hbm(device);
    const int fd = export_all(hbm);
    for (const int access : {PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE}) {
      EXPECT_EQ(::mmap(nullptr, 4096, access, MAP_SHARED, fd, 0), MAP_FAILED);
      EXPECT_EQ(errno, EINVAL) << "as the driver says it";
    }
    ::close(fd);
  });
}

TEST(dmabuf, is_written_and_read_by_the_nic) {
  simulate(small, [] {
    const open_device device;
    const loopback nic;
    const registered_page hbm(nic, device);
    registered_host from(nic, device, mib), to(nic, device, mib);
    from.fill(1);
    EXPECT_EQ(nic.transfer(IBV_WR_RDMA_WRITE, from.start(), hbm.at(12345), mib), IBV_WC_SUCCESS);
    copy(device, hbm.hbm.va + 12345, to.buffer.va(), mib);
    expect_same(from, to);
    from.fill(2);
    copy(device, from.buffer.va(), hbm.hbm.va + 54321, mib);
    EXPECT_EQ(nic.transfer(IBV_WR_RDMA_READ, to.start(), hbm.at(54321), mib), IBV_WC_SUCCESS);
    expect_same(from, to);
  });
}

// Region, dma-buf, mapping, memory: whoever goes too soon is told so.
TEST(dmabuf, pins_the_memory_until_its_region_is_gone) {
  simulate(small, [] {
    const open_device device;
    const loopback nic;
    registered_page page(nic, device);
    const uint64_t va = page.hbm.va, handle = page.hbm.handle;
    const int fd = export_all(page.hbm);
    EXPECT_EQ(hlthunk_memory_unmap(device, va), -EINVAL) << "a region, and a descriptor";
    page.mr.reset();
    EXPECT_EQ(hlthunk_memory_unmap(device, va), -EINVAL) << "a descriptor";
    ::close(fd);
    EXPECT_EQ(hlthunk_device_memory_free(device, handle), -EINVAL) << "a mapping";
    EXPECT_EQ(hlthunk_memory_unmap(device, va), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, handle), 0);
  });
}

TEST(dmabuf, the_region_alone_pins_the_memory) {
  simulate(small, [] {
    const open_device device;
    const loopback nic;
    registered_page page(nic, device);
    EXPECT_EQ(hlthunk_memory_unmap(device, page.hbm.va), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(device, page.hbm.handle), -EINVAL);
    page.mr.reset();
    EXPECT_EQ(hlthunk_memory_unmap(device, page.hbm.va), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, page.hbm.handle), 0);
  });
}

TEST(dmabuf, is_not_reached_past_its_end) {
  simulate(small, [] {
    const open_device device;
    for (const ibv_wr_opcode what : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
      for (const uint64_t offset : {size - 2048, size, uint64_t{0} - 2048}) {
        const loopback nic;
        registered_page page(nic, device);
        registered_host host(nic, device, 4096);
        EXPECT_EQ(nic.transfer(what, host.start(), page.at(offset), 4096), IBV_WC_REM_ACCESS_ERR)
            << offset;
        EXPECT_EQ(nic.transfer(what, host.start(), page.at(0), 4096), IBV_WC_WR_FLUSH_ERR)
            << "the connection is given up";
      }
    }
  });
}

TEST(dmabuf, is_not_reached_with_the_key_of_a_region_that_is_gone) {
  simulate(small, [] {
    const open_device device;
    const loopback nic;
    registered_page page(nic, device);
    registered_host host(nic, device, 4096);
    const place gone = page.at(0);
    EXPECT_EQ(nic.transfer(IBV_WR_RDMA_WRITE, host.start(), gone, 4096), IBV_WC_SUCCESS);
    page.mr.reset();
    EXPECT_EQ(nic.transfer(IBV_WR_RDMA_WRITE, host.start(), gone, 4096), IBV_WC_REM_ACCESS_ERR);
  });
}

}  // namespace
}  // namespace vm_test
