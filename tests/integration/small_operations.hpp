// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "passing.hpp"

namespace gaudi::test {

/// Messages, writes, reads and atomics of a few bytes from device memory to device memory, whatever
/// their size and alignment: each with neighbours in the same words that must stay. `Memory` has
/// the members of `memory`, and 3 pages; the node has FI_ATOMIC.
template <class Memory>
class small_operations {
 public:
  static constexpr std::size_t page = 4096, length = 3 * page;
  static node_options options() {
    return {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, .device = true};
  }

  small_operations(node& n, rank& r, Memory& own) : n_(n), r_(r), own_(own) {
    const std::array<std::uint64_t, 2> mine{own.remote(0), own.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
    std::memcpy(peers_.data(), all.at(1 - static_cast<std::size_t>(r.id())).data(), sizeof peers_);
  }

  void run_all() {
    for (const std::size_t size : {1, 2, 3, 7, 8, 63, 64, 65})
      for (const std::size_t offset : {0, 1, 3, 127, 4093}) {
        if (size > n_.info()->tx_attr->inject_size) continue;
        run_one(size, offset);
      }
    add(0), add(8), add(page - 8);
  }

 private:
  using bytes = std::vector<std::byte>;

  /// Rank 0's bytes at `offset` come to rank 1's at an offset of another alignment.
  void run_one(std::size_t size, std::size_t offset) {
    const std::size_t there = offset + 5;
    received([&] { message(size, offset, there, 0); }, size, there, "message");
    received([&] { message(size, offset, there, FI_INJECT); }, size, there, "injected message");
    received([&] { write(size, offset, there, FI_DELIVERY_COMPLETE); }, size, there, "write");
    received([&] { write(size, offset, there, FI_INJECT | FI_DELIVERY_COMPLETE); }, size, there,
             "injected write");
    read(size, offset, there);
  }

  /// `operation` has rank 0 send what bytes_of(1, size) are; rank 1 then has them, and what was
  /// around them.
  template <class Operation>
  void received(Operation operation, std::size_t size, std::size_t there, const char* what) {
    own_.put(0, bytes_of(9, length));
    r_.barrier();
    operation();
    r_.barrier();
    if (r_.id() == 0) return;
    bytes wanted = bytes_of(9, length);
    const bytes sent = bytes_of(1, size);
    std::copy(sent.begin(), sent.end(), wanted.begin() + static_cast<std::ptrdiff_t>(there));
    expect_same(wanted, own_.get(0, length), what);
  }

  /// What is injected is the application's again at once.
  void reuse(std::size_t size, std::size_t offset, std::uint64_t flags) {
    if ((flags & FI_INJECT) != 0) own_.put(offset, bytes_of(2, size));
  }

  void message(std::size_t size, std::size_t offset, std::size_t there, std::uint64_t flags) {
    void* desc = own_.desc();
    if (r_.id() == 1) {
      n_.post([&] {
        return fi_trecv(n_.ep(), own_.at(there), size, desc, FI_ADDR_UNSPEC, 1, 0, ctx(1));
      });
      EXPECT_EQ(0, n_.wait(ctx(1)).err);
      return;
    }
    own_.put(offset, bytes_of(1, size));
    const iovec from{own_.at(offset), size};
    const fi_msg_tagged all{&from, &desc, 1, n_.peer(1), 1, 0, ctx(1), 0};
    n_.post([&] { return fi_tsendmsg(n_.ep(), &all, flags | FI_COMPLETION); });
    reuse(size, offset, flags);
    EXPECT_EQ(0, n_.wait(ctx(1)).err);
  }

  void write(std::size_t size, std::size_t offset, std::size_t there, std::uint64_t flags) {
    if (r_.id() == 1) return;
    own_.put(offset, bytes_of(1, size));
    void* desc = own_.desc();
    const iovec from{own_.at(offset), size};
    const fi_rma_iov to{peers_[0] + there, size, peers_[1]};
    const fi_msg_rma all{&from, &desc, 1, n_.peer(1), &to, 1, ctx(2), 0};
    n_.post([&] { return fi_writemsg(n_.ep(), &all, flags | FI_COMPLETION); });
    reuse(size, offset, flags);
    EXPECT_EQ(0, n_.wait(ctx(2)).err);
  }

  void read(std::size_t size, std::size_t offset, std::size_t there) {
    own_.put(0, bytes_of(r_.id() == 0 ? 9 : 3, length));
    r_.barrier();
    if (r_.id() == 0) {
      n_.post([&] {
        return fi_read(n_.ep(), own_.at(offset), size, own_.desc(), n_.peer(1), peers_[0] + there,
                       peers_[1], ctx(3));
      });
      EXPECT_EQ(0, n_.wait(ctx(3)).err);
      bytes wanted = bytes_of(9, length);
      const bytes source = bytes_of(3, length);
      std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(there), size,
                  wanted.begin() + static_cast<std::ptrdiff_t>(offset));
      expect_same(wanted, own_.get(0, length), "read");
    }
    r_.barrier();
  }

  /// 100 + 23, where 100 comes back.
  void add(std::size_t offset) {
    own_.put(offset, word(r_.id() == 0 ? 23 : 100));
    r_.barrier();
    if (r_.id() == 0) {
      n_.post([&] {
        return fi_fetch_atomic(n_.ep(), own_.at(offset), 1, own_.desc(), own_.at(2 * page),
                               own_.desc(), n_.peer(1), peers_[0] + offset, peers_[1], FI_UINT64,
                               FI_SUM, ctx(4));
      });
      EXPECT_EQ(0, n_.wait(ctx(4)).err);
      expect_same(word(100), own_.get(2 * page, sizeof(std::uint64_t)), "fetched");
    }
    r_.barrier();
    if (r_.id() == 1) expect_same(word(123), own_.get(offset, sizeof(std::uint64_t)), "sum");
    r_.barrier();
  }

  static bytes word(std::uint64_t value) {
    bytes out(sizeof value);
    std::memcpy(out.data(), &value, sizeof value);
    return out;
  }

  node& n_;
  rank& r_;
  Memory& own_;
  std::array<std::uint64_t, 2> peers_{};  // address and key of the other's memory
};

}  // namespace gaudi::test
