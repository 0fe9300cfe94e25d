// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages before there is a connection, to two endpoints that share their receives, into buffers
// that take many, counted; between a pool of one device's and memory of another.
#include <rdma/fi_tagged.h>

#include <numeric>

#include "side.hpp"
#include "traffic.hpp"

namespace gaudi::test {
namespace {

constexpr std::array<std::size_t, 3> lengths{16, 4000, 20'000};  // the last a rendezvous
constexpr int messages = lengths.size();
constexpr std::uint64_t tag = 9;
constexpr std::array<std::byte, 64> injected{};

int open_counter(side& s) {
  fi_cntr_attr attr{};
  attr.events = FI_CNTR_EVENTS_COMP;
  attr.wait_obj = automatic ? FI_WAIT_FD : FI_WAIT_NONE;
  return fi_cntr_open(s.domain, &attr, &s.counter, nullptr);
}

int open_sender(fi_info* info) {
  OR_RETURN(open_domain(a, info));
  OR_RETURN(open_counter(a));
  OR_RETURN(open_endpoint(a, info, &a.endpoint));
  OR_RETURN(fi_ep_bind(a.endpoint, &a.counter->fid, FI_SEND));
  OR_RETURN(fi_enable(a.endpoint));
  if (!a.gaudi) return register_memory(a);
  OR_RETURN(a.gaudi->pool_create(a.domain, 2 * longest, FI_SEND | FI_RECV, &a.pool));
  OR_RETURN(a.gaudi->pool_alloc(a.domain, a.pool, longest, &a.device_memory));
  return register_memory(a);
}

int open_receiver(fi_info* info) {
  OR_RETURN(open_domain(b, info));
  OR_RETURN(open_counter(b));
  OR_RETURN(fi_srx_context(b.domain, info->rx_attr, &b.shared, nullptr));
  for (fid_ep** end : {&b.endpoint, &b.second}) {
    OR_RETURN(open_endpoint(b, info, end));
    OR_RETURN(fi_ep_bind(*end, &b.shared->fid, 0));
    OR_RETURN(fi_ep_bind(*end, &b.counter->fid, FI_RECV));
    OR_RETURN(fi_enable(*end));
  }
  if (!b.gaudi) return register_memory(b);
  OR_RETURN(b.gaudi->select_device(b.domain, 1));
  OR_RETURN(b.gaudi->alloc(b.domain, longest, &b.device_memory));
  return register_memory(b);
}

/// A buffer for all untagged messages of either endpoint, which is full then.
int receive_many() {
  std::size_t least = 1;
  OR_RETURN(
      fi_setopt(&b.shared->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
  const iovec range{b.memory(), 2 * std::accumulate(lengths.begin(), lengths.end(), std::size_t{})};
  void* desc = fi_mr_desc(b.region);
  fi_msg message{};
  message.msg_iov = &range;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  return post([&] { return fi_recvmsg(b.shared, &message, FI_MULTI_RECV); });
}

/// To both, one after the other, without a look at any queue.
int send_early() {
  void* const desc = fi_mr_desc(a.region);
  for (const fi_addr_t to : {a.peer, a.second_peer}) {
    for (const std::size_t length : lengths)
      OR_RETURN(fi_send(a.endpoint, a.memory(), length, desc, to, nullptr));
    OR_RETURN(fi_tinject(a.endpoint, injected.data(), injected.size(), to, tag));
  }
  return 0;
}

/// 1: what has come to these places is not what was sent.
int check_places(unsigned seed) {
  OR_RETURN(copy_from_device(b, longest));
  for (std::size_t i = 0; i < 2 * lengths.size(); ++i) {
    const side::place& p = b.places[i];
    if (p.at > longest || p.length > longest - p.at) return 1;
    for (std::size_t k = 0; k < p.length; ++k)
      if (b.host[p.at + k] != byte_of(seed, k)) return 1;
  }
  return 0;
}

int exchange_early() {
  OR_RETURN(fill(a, 1, longest));
  OR_RETURN(receive_many());
  OR_RETURN(send_early());
  OR_RETURN(wait_for(2 * messages, 2 * messages));
  if (const int ret = check_places(1)) return ret;
  void* const desc = fi_mr_desc(b.region);
  for (int i = 0; i < 2; ++i) {
    OR_RETURN(post([&] {
      return fi_trecv(b.shared, b.memory(), injected.size(), desc, FI_ADDR_UNSPEC, tag, 0, nullptr);
    }));
  }
  return wait_for(0, 2);
}

int exchange_unexpected() {
  void* const from = fi_mr_desc(a.region);
  void* const to = fi_mr_desc(b.region);
  OR_RETURN(fill(a, 3, longest));
  OR_RETURN(post([&] {
    return fi_tsend(a.endpoint, a.memory(), longest, from, a.second_peer, tag, nullptr);
  }));
  OR_RETURN(post([&] {
    return fi_trecv(b.shared, b.memory(), longest, to, FI_ADDR_UNSPEC, tag, 0, nullptr);
  }));
  OR_RETURN(wait_for(1, 1));
  return check(b, 3, longest);
}

/// As many as there were, and no more.
int wait_for_counters() {
  constexpr std::uint64_t all = 2 * (lengths.size() + 1) + 1;
  for (const side* s : {&a, &b}) {
    OR_RETURN(fi_cntr_wait(s->counter, all, static_cast<int>(hang.count()) * 1000));
    const int ret = fi_cntr_wait(s->counter, all + 1, 1);
    if (ret != -FI_ETIMEDOUT) return ret ? ret : 1;
  }
  return 0;
}

int traffic(fi_info* info) {
  OR_RETURN(open_sender(info));
  OR_RETURN(open_receiver(info));
  OR_RETURN(introduce(a, b.endpoint, &a.peer));
  OR_RETURN(introduce(a, b.second, &a.second_peer));
  int ret = exchange_early();
  if (!ret) ret = exchange_unexpected();
  return ret ? ret : wait_for_counters();
}

}  // namespace

outcome run_objects_traffic(variant how) {
  automatic = how.automatic;
  fi_info* info = nullptr;
  int ret = find(FI_MSG | FI_TAGGED | FI_MULTI_RECV | (how.from_device ? FI_HMEM : 0), &info);
  if (!ret) ret = traffic(info);
  fi_freeinfo(info);
  close_both();
  return outcome_of(ret);
}

}  // namespace gaudi::test
