// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads of an endpoint from itself, by keys of regions that give peers no right to read: HCL's
// flush (tests/integration/hcl/README.md).
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "opened.hpp"

namespace gaudi::fi {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::uint64_t hcl_access = FI_SEND | FI_RECV;

core::unique_fid<fid_mr> registered(const test::opened& o, void* base, std::size_t length,
                                    fi_hmem_iface iface = FI_HMEM_SYSTEM,
                                    std::uint64_t access = hcl_access) {
  const iovec range{base, length};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = access;
  attr.iface = iface;
  fid_mr* mr = nullptr;
  EXPECT_EQ(fi_mr_regattr(o.domain.get(), &attr, 0, &mr), 0);
  return core::unique_fid<fid_mr>(mr);
}

bytes pattern(std::size_t length) {
  bytes data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(i * 7 + 1);
  return data;
}

/// The error of the completion that comes next, 0 for success.
int next_completion(const test::endpoint_set& e, void* context) {
  fi_cq_tagged_entry entry{};
  const ssize_t ret = test::retry(e.cq.get(), [&] { return fi_cq_read(e.cq.get(), &entry, 1); });
  if (ret == 1) {
    EXPECT_EQ(entry.op_context, context);
    EXPECT_EQ(entry.flags, FI_RMA | FI_READ);
    return 0;
  }
  EXPECT_EQ(ret, -FI_EAVAIL);
  fi_cq_err_entry error{};
  EXPECT_EQ(fi_cq_readerr(e.cq.get(), &error, 0), 1);
  EXPECT_EQ(error.op_context, context);
  return error.err;
}

struct reading : testing::Test {
  test::opened o{test::direct_mode, FI_VERSION(1, 17), FI_MSG | FI_TAGGED};
  test::endpoint_set e{o};
  const fi_addr_t self = e.meet(e);
  int context = 0;

  int read(const test::endpoint_set& from_end, fi_addr_t target, void* to, std::size_t length,
           void* desc, std::uint64_t address, std::uint64_t key) {
    const ssize_t ret = test::retry(from_end.cq.get(), [&] {
      return fi_read(from_end.ep.get(), to, length, desc, target, address, key, &context);
    });
    return ret == 0 ? next_completion(from_end, &context) : static_cast<int>(-ret);
  }
};

TEST_F(reading, from_itself_needs_no_right_of_peers) {
  bytes source = pattern(100'000);
  const auto mr = registered(o, source.data(), source.size());
  for (const std::size_t length : {std::size_t{0}, std::size_t{4}, std::size_t{90'000}}) {
    bytes to(length);
    EXPECT_EQ(read(e, self, to.data(), length, nullptr,
                   reinterpret_cast<std::uint64_t>(source.data()) + 5, fi_mr_key(mr.get())),
              0);
    EXPECT_TRUE(std::equal(to.begin(), to.end(), source.begin() + 5)) << length;
  }
}

TEST_F(reading, by_a_peer_is_refused_all_the_same) {
  bytes source = pattern(100);
  const auto mr = registered(o, source.data(), source.size());
  const test::endpoint_set other(o);
  const fi_addr_t target = other.meet(e);
  bytes to(4);
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_read(e.cq.get(), &entry, 1), -FI_EAGAIN);
  EXPECT_NE(read(other, target, to.data(), to.size(), nullptr,
                 reinterpret_cast<std::uint64_t>(source.data()), fi_mr_key(mr.get())),
            0);
  EXPECT_EQ(to, bytes(4)) << "nothing was read";
}

TEST_F(reading, from_itself_stays_inside_the_region) {
  bytes source = pattern(100);
  const auto mr = registered(o, source.data(), 50);
  bytes to(4);
  EXPECT_NE(read(e, self, to.data(), 4, nullptr,
                 reinterpret_cast<std::uint64_t>(source.data()) + 48, fi_mr_key(mr.get())),
            0);
  EXPECT_EQ(to, bytes(4));
}

TEST_F(reading, counts_as_a_read) {
  bytes source = pattern(100);
  const auto mr = registered(o, source.data(), source.size());
  fi_cntr_attr attr{};
  fid_cntr* counter = nullptr;
  ASSERT_EQ(fi_cntr_open(o.domain.get(), &attr, &counter, nullptr), 0);
  const core::unique_fid<fid_cntr> keep(counter);
  const auto ep = o.open_ep();
  ASSERT_EQ(fi_ep_bind(ep.get(), &e.cq->fid, FI_TRANSMIT | FI_RECV), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &e.av->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(ep.get(), &counter->fid, FI_READ), 0);
  ASSERT_EQ(fi_enable(ep.get()), 0);
  std::byte name[64];
  std::size_t length = sizeof name;
  ASSERT_EQ(fi_getname(&ep->fid, name, &length), 0);
  fi_addr_t own = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(e.av.get(), name, 1, &own, 0, nullptr), 1);
  bytes to(4);
  EXPECT_EQ(fi_read(ep.get(), to.data(), 4, nullptr, own,
                    reinterpret_cast<std::uint64_t>(source.data()), fi_mr_key(mr.get()), &context),
            0);
  EXPECT_EQ(fi_cntr_read(counter), 1U);
}

class reading_device : public test::with_device {};

TEST_F(reading_device, from_itself_to_the_host_and_within_the_device) {
  const test::endpoint_set e(o_);
  const fi_addr_t self = e.meet(e);
  constexpr std::size_t size = 200'000;
  const std::uint64_t device = allocate(2 * size);
  const bytes source = pattern(size);
  ASSERT_EQ(o_.ops().copy(o_.domain.get(), device, reinterpret_cast<std::uint64_t>(source.data()),
                          size, FI_GAUDI_HOST_TO_DEVICE),
            0);
  {
    const auto mr = registered(o_, reinterpret_cast<void*>(device), 2 * size, FI_HMEM_SYNAPSEAI);
    int context = 0;
    const auto read_to = [&](void* to, std::size_t length, void* desc) {
      EXPECT_EQ(fi_read(e.ep.get(), to, length, desc, self, device, fi_mr_key(mr.get()), &context),
                0);
      EXPECT_EQ(next_completion(e, &context), 0);
    };
    bytes to(size);
    read_to(to.data(), 4, nullptr);
    EXPECT_EQ(std::memcmp(to.data(), source.data(), 4), 0);
    read_to(to.data(), size, nullptr);
    EXPECT_EQ(to, source);
    read_to(reinterpret_cast<void*>(device + size), size, fi_mr_desc(mr.get()));
    bytes back(size);
    ASSERT_EQ(o_.ops().copy(o_.domain.get(), reinterpret_cast<std::uint64_t>(back.data()),
                            device + size, size, FI_GAUDI_DEVICE_TO_HOST),
              0);
    EXPECT_EQ(back, source);
  }
  EXPECT_EQ(o_.ops().free(o_.domain.get(), device), 0);
}

}  // namespace
}  // namespace gaudi::fi
