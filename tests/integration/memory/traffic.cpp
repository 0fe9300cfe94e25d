// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "traffic.hpp"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <cstdio>

#include "side.hpp"

namespace gaudi::test {
namespace {

int open(side& s, fi_info* info, bool device) {
  OR_RETURN(open_domain(s, info));
  OR_RETURN(open_endpoint(s, info, &s.endpoint));
  OR_RETURN(fi_enable(s.endpoint));
  if (device) OR_RETURN(s.gaudi->alloc(s.domain, longest, &s.device_memory));
  return register_memory(s);
}

int exchange(std::size_t length, bool late_receive) {
  const auto seed = static_cast<unsigned>(length);
  OR_RETURN(fill(a, seed, length));
  OR_RETURN(fill(b, seed + 1, length));
  void* const da = fi_mr_desc(a.region);
  void* const db = fi_mr_desc(b.region);
  const auto receive = [&] {
    return fi_trecv(b.endpoint, b.memory(), length, db, FI_ADDR_UNSPEC, 7, 0, nullptr);
  };
  if (!late_receive) OR_RETURN(post(receive));
  OR_RETURN(post([&] { return fi_tsend(a.endpoint, a.memory(), length, da, a.peer, 7, nullptr); }));
  if (late_receive) {
    // It has come, or is on its way.
    for (int i = 0; i < 100; ++i) {
      fi_cq_tagged_entry unread{};
      if (fi_cq_read(b.queue, &unread, 0) == -FI_EAVAIL) break;
    }
    OR_RETURN(post(receive));
  }
  OR_RETURN(wait_for(1, 1));
  return check(b, seed, length);
}

int access(std::size_t length) {
  const std::uint64_t key = fi_mr_key(b.region);
  const auto at = reinterpret_cast<std::uint64_t>(b.memory());
  void* const da = fi_mr_desc(a.region);
  OR_RETURN(fill(a, 3, length));
  OR_RETURN(fill(b, 4, length));
  OR_RETURN(post([&] {
    return fi_writedata(a.endpoint, a.memory(), length, da, 5, a.peer, at, key, nullptr);
  }));
  OR_RETURN(wait_for(1, 1));
  int ret = check(b, 3, length);
  if (ret) return ret;
  OR_RETURN(fill(a, 5, length));
  OR_RETURN(
      post([&] { return fi_read(a.endpoint, a.memory(), length, da, a.peer, at, key, nullptr); }));
  OR_RETURN(wait_for(1, 0));
  return check(a, 3, length);
}

int add() {
  const std::uint64_t key = fi_mr_key(b.region);
  const auto at = reinterpret_cast<std::uint64_t>(b.memory());
  static std::uint64_t one = 1;
  static std::uint64_t before = 0;
  OR_RETURN(fill(b, 0, 64));
  OR_RETURN(post([&] {
    return fi_fetch_atomic(a.endpoint, &one, 1, nullptr, &before, nullptr, a.peer, at, key,
                           FI_UINT64, FI_SUM, nullptr);
  }));
  return wait_for(1, 0);
}

int exchange_all(fi_info* info, variant how) {
  OR_RETURN(open(a, info, how.from_device));
  OR_RETURN(open(b, info, how.to_device));
  OR_RETURN(introduce(a, b.endpoint, &a.peer));
  OR_RETURN(introduce(b, a.endpoint, &b.peer));
  for (const std::size_t length : {std::size_t{16}, std::size_t{4000}, longest}) {
    int ret = exchange(length, false);
    if (!ret) ret = exchange(length, true);
    if (!ret) ret = access(length);
    if (ret) return ret;
  }
  return add();
}

}  // namespace

outcome run_traffic(variant how) {
  automatic = how.automatic;
  const bool any_device = how.from_device || how.to_device;
  fi_info* info = nullptr;
  int ret = find(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | (any_device ? FI_HMEM : 0), &info);
  if (!ret) ret = exchange_all(info, how);
  fi_freeinfo(info);
  close_both();
  return outcome_of(ret);
}

outcome outcome_of(int ret) {
  if (ret == 0) return outcome::done;
  if (ret == 1) return outcome::wrong;
  if (ret == -FI_ETIMEDOUT) return outcome::stuck;
  std::printf("refused: %s\n", fi_strerror(-ret));
  return outcome::refused;
}

}  // namespace gaudi::test
