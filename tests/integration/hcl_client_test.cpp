// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A client with the shape of HCL, Habana's collectives: it takes only providers whose name holds
// "verbs" or "tcp", wants FI_PROGRESS_AUTO, registers the whole device pool once by dma-buf, sends
// and receives with that one descriptor, and flushes by a read of four bytes on a domain of its
// own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr int hcl_mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr std::uint64_t from_dmabuf = std::uint64_t{1} << 40;  // FI_MR_DMABUF, since libfabric 1.20
constexpr std::size_t pool_size = 64 << 20;

/// struct fi_mr_dmabuf, since libfabric 1.20.
struct dmabuf_range {
  int fd;
  std::uint64_t offset;
  std::size_t len;
  void* base_addr;
};

world under_hcl_names() {
  return {.environment = {{"TEST_PROVIDER", on_verbs() ? "verbs;ofi_gaudi" : "tcp;ofi_gaudi"},
                          {"FI_PROVIDER_PATH", std::getenv("HCL_PROVIDER_PATH")}}};
}

node_options hcl_options() {
  return {.caps = FI_MSG | FI_TAGGED,
          .mr_mode = hcl_mr_mode,
          .av_type = FI_AV_UNSPEC,
          .progress = FI_PROGRESS_AUTO,
          .device = true};
}

fid_ptr<fid_mr> register_pool(node& n, std::uint64_t pool, std::uint64_t access) {
  fi_gaudi_dmabuf exported{};
  must(n.ops().export_dmabuf(n.domain(), pool, pool_size, &exported), "export_dmabuf");
  const dmabuf_range range{exported.fd, exported.offset, pool_size,
                           reinterpret_cast<void*>(exported.base_addr)};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::byte room[256];
  } request{};
  request.attr.mr_iov = reinterpret_cast<const iovec*>(&range);
  request.attr.iov_count = 1;
  request.attr.access = access;
  request.attr.iface = FI_HMEM_SYNAPSEAI;
  fid_mr* mr = nullptr;
  const int ret = fi_mr_regattr(n.domain(), &request.attr, from_dmabuf, &mr);
  ::close(exported.fd);
  must(ret, "fi_mr_regattr of a dma-buf");
  return fid_ptr<fid_mr>(mr);
}

void copy_in(node& n, std::uint64_t to, const bytes& data) {
  must(n.ops().copy(n.domain(), to, reinterpret_cast<std::uintptr_t>(data.data()), data.size(),
                    FI_GAUDI_HOST_TO_DEVICE),
       "copy");
}

bytes copy_out(node& n, std::uint64_t from, std::size_t size) {
  bytes data(size);
  must(n.ops().copy(n.domain(), reinterpret_cast<std::uintptr_t>(data.data()), from, size,
                    FI_GAUDI_DEVICE_TO_HOST),
       "copy");
  return data;
}

/// Four bytes read from the pool by the flush domain's endpoint from itself.
std::uint32_t flush(node& f, fi_addr_t self, fid_mr* target, std::uint64_t address) {
  std::uint32_t word = 0;
  fid_ptr<fid_mr> local;
  must(register_range(f.domain(), &word, sizeof word, FI_HMEM_SYSTEM, 0, local), "flush buffer");
  f.post([&] {
    return fi_read(f.ep(), &word, sizeof word, fi_mr_desc(local.get()), self, address,
                   fi_mr_key(target), ctx(9));
  });
  EXPECT_EQ(f.wait(ctx(9)).err, 0);
  return word;
}

fi_addr_t address_of_self(node& n) {
  fi_addr_t self = FI_ADDR_NOTAVAIL;
  const std::string name = n.name();
  if (fi_av_insert(n.av(), name.data(), 1, &self, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  return self;
}

TEST(hcl_client, finds_a_name_that_it_accepts) {
  world w = under_hcl_names();
  w.ranks = 1;
  run(w, [](rank&) {
    const node n(hcl_options());
    const std::string name = n.info()->fabric_attr->prov_name;
    EXPECT_EQ(name, provider());
    EXPECT_EQ(n.info()->domain_attr->data_progress, FI_PROGRESS_AUTO);
    EXPECT_TRUE(n.info()->addr_format == FI_SOCKADDR_IN ||
                n.info()->addr_format == FI_SOCKADDR_IN6);
    EXPECT_TRUE(n.info()->caps & FI_HMEM);
  });
}

TEST(hcl_client, exchanges_pieces_of_one_registered_pool) {
  run(under_hcl_names(), [](rank& r) {
    node n(hcl_options());
    n.meet(r);
    std::uint64_t pool = 0;
    must(n.ops().alloc(n.domain(), pool_size, &pool), "alloc");
    fid_ptr<fid_mr> mr = register_pool(n, pool, FI_SEND | FI_RECV);
    node_options flushing = hcl_options();
    flushing.caps = FI_RMA;
    node f(flushing);
    const fi_addr_t self = address_of_self(f);
    fid_ptr<fid_mr> flush_mr = register_pool(f, pool, FI_REMOTE_READ);

    const int other = 1 - r.id();
    const std::vector<std::size_t> sizes{4, 1000, 65536, 3 << 20};
    std::size_t offset = 0;
    for (const std::size_t size : sizes) {
      const std::uint64_t out = pool + offset, in = out + (32 << 20);
      copy_in(n, out, bytes_of(offset + static_cast<std::size_t>(r.id()), size));
      n.post([&] {
        return fi_trecv(n.ep(), reinterpret_cast<void*>(in), size, fi_mr_desc(mr.get()),
                        n.peer(other), size, 0, ctx(1));
      });
      n.post([&] {
        return fi_tsend(n.ep(), reinterpret_cast<void*>(out), size, fi_mr_desc(mr.get()),
                        n.peer(other), size, ctx(2));
      });
      EXPECT_EQ(n.wait(ctx(1)).err, 0);
      EXPECT_EQ(n.wait(ctx(2)).err, 0);
      const bytes expected = bytes_of(offset + static_cast<std::size_t>(other), size);
      std::uint32_t first = 0;
      std::memcpy(&first, expected.data(), sizeof first);
      EXPECT_EQ(flush(f, self, flush_mr.get(), in), first);
      expect_same(expected, copy_out(n, in, size), "received piece");
      offset += size;
    }
    r.barrier();
    flush_mr.reset();
    mr.reset();
    must(n.ops().free(n.domain(), pool), "free");
  });
}

}  // namespace
}  // namespace gaudi::test
