// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "node.hpp"

namespace gaudi::test {

/// The first `size` bytes of rank 0's memory go to where rank 1's begins. Each waits for its own
/// end; its completion. `Memory` is `memory`, or has its at() and desc().
template <class Memory>
completion pass(node& n, const rank& r, const Memory& own, std::size_t size, std::uint64_t tag) {
  if (r.id() == 0) {
    n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), tag, ctx(tag)); });
  } else {
    n.post([&] {
      return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, tag, 0, ctx(tag));
    });
  }
  return n.wait(ctx(tag));
}

}  // namespace gaudi::test
