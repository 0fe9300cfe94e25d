// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "node.hpp"

namespace gaudi::test {

/// Each rank has a device of its own.
inline void take_device(const rank& r) {
  setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
}

/// A message of bytes_of(seed, size) from rank 0 to rank 1, both at odd places of `own`, checked
/// there.
template <class Memory>
void pass_message(const rank& r, node& n, Memory& own, std::size_t size, std::uint64_t seed) {
  const std::size_t offset = r.id() == 0 ? 3 : 4097;
  if (r.id() == 0) {
    own.put(offset, bytes_of(seed, size));
    n.post(
        [&] { return fi_tsend(n.ep(), own.at(offset), size, own.desc(), n.peer(1), 1, ctx(1)); });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    return;
  }
  n.post([&] {
    return fi_trecv(n.ep(), own.at(offset), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
  });
  const completion c = n.wait(ctx(1));
  EXPECT_EQ(0, c.err);
  EXPECT_EQ(size, c.len);
  expect_same(bytes_of(seed, size), own.get(offset, size), "message");
}

}  // namespace gaudi::test
