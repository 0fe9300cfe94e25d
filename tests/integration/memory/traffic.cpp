// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "traffic.hpp"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

namespace gaudi::test {
namespace {

constexpr std::size_t longest = 100'000;  // a rendezvous
constexpr std::chrono::seconds hang{20};

/// One side. Nothing of C++ that allocates: an exception of the program's own would be no news.
struct side {
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* queue = nullptr;
  fid_av* addresses = nullptr;
  fid_ep* endpoint = nullptr;
  fid_mr* region = nullptr;
  fi_gaudi_ops* gaudi = nullptr;
  std::uint64_t device_memory = 0;
  std::array<std::byte, longest> host{};
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  int completions = 0;
  int failed = 0;  // positive FI_E*

  [[nodiscard]] std::byte* memory() {
    return device_memory ? reinterpret_cast<std::byte*>(device_memory) : host.data();
  }
};

side a;
side b;
bool automatic = false;  // FI_PROGRESS_AUTO

int open(side& s, fi_info* info, bool device) {
  OR_RETURN(fi_fabric(info->fabric_attr, &s.fabric, nullptr));
  OR_RETURN(fi_domain(s.fabric, info, &s.domain, nullptr));
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_TAGGED;
  cq.wait_obj = automatic ? FI_WAIT_FD : FI_WAIT_NONE;
  OR_RETURN(fi_cq_open(s.domain, &cq, &s.queue, nullptr));
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  OR_RETURN(fi_av_open(s.domain, &av, &s.addresses, nullptr));
  OR_RETURN(fi_endpoint(s.domain, info, &s.endpoint, nullptr));
  OR_RETURN(fi_ep_bind(s.endpoint, &s.queue->fid, FI_TRANSMIT | FI_RECV));
  OR_RETURN(fi_ep_bind(s.endpoint, &s.addresses->fid, 0));
  OR_RETURN(fi_enable(s.endpoint));
  if (device) {
    OR_RETURN(fi_open_ops(&s.domain->fid, FI_GAUDI_DOMAIN_OPS, 0,
                          reinterpret_cast<void**>(&s.gaudi), nullptr));
    OR_RETURN(s.gaudi->alloc(s.domain, longest, &s.device_memory));
  }
  const iovec range{s.memory(), longest};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  attr.iface = device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  return fi_mr_regattr(s.domain, &attr, 0, &s.region);
}

void close(side& s) {
  for (fid_t f : {s.endpoint ? &s.endpoint->fid : nullptr, s.region ? &s.region->fid : nullptr,
                  s.addresses ? &s.addresses->fid : nullptr, s.queue ? &s.queue->fid : nullptr})
    if (f) fi_close(f);
  if (s.device_memory) s.gaudi->free(s.domain, s.device_memory);
  if (s.domain) fi_close(&s.domain->fid);
  if (s.fabric) fi_close(&s.fabric->fid);
  s = {};
}

int introduce(side& to, side& who) {
  std::array<char, 64> name{};
  std::size_t length = name.size();
  OR_RETURN(fi_getname(&who.endpoint->fid, name.data(), &length));
  const int added = fi_av_insert(to.addresses, name.data(), 1, &to.peer, 0, nullptr);
  return added == 1 ? 0 : -FI_ENOMEM;
}

// A call that says that it failed ends the run as an operation that fails does.
void progress(side& s) {
  fi_cq_tagged_entry entry{};
  const ssize_t got = fi_cq_read(s.queue, &entry, 1);
  if (got == 1) ++s.completions;
  if (got == -FI_EAVAIL) {
    union {
      fi_cq_err_entry entry;
      std::byte space[256];
    } error{};
    if (fi_cq_readerr(s.queue, &error.entry, 0) == 1) s.failed = error.entry.err;
  } else if (got < 0 && got != -FI_EAGAIN) {
    s.failed = static_cast<int>(-got);
  }
}

using time_point = std::chrono::steady_clock::time_point;

/// With FI_PROGRESS_AUTO: until the provider's threads have brought something.
void await_news(time_point end) {
  std::array<pollfd, 2> news{{{-1, POLLIN, 0}, {-1, POLLIN, 0}}};
  std::size_t which = 0;
  for (const side* s : {&a, &b}) {
    fid* queue = &s->queue->fid;
    if (fi_control(queue, FI_GETWAIT, &news[which++].fd) != 0) return;
    if (fi_trywait(s->fabric, &queue, 1) != 0) return;
  }
  const auto rest =
      std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  if (rest.count() > 0) ::poll(news.data(), news.size(), static_cast<int>(rest.count()));
}

/// A connection that is there is no news.
void nap(time_point) {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// 0, or the first error there is; -FI_ETIMEDOUT: it hangs. `rest`: before each look, with
/// FI_PROGRESS_AUTO.
template <class Done>
int progress_until(Done&& done, void (*rest)(time_point)) {
  const auto give_up = std::chrono::steady_clock::now() + hang;
  while (!done()) {
    if (automatic) rest(give_up);
    progress(a);
    progress(b);
    if (a.failed || b.failed) return -(a.failed ? a.failed : b.failed);
    if (std::chrono::steady_clock::now() > give_up) return -FI_ETIMEDOUT;
  }
  return 0;
}

template <class Call>
int post(Call&& call) {
  ssize_t ret = -FI_EAGAIN;
  const int waited = progress_until([&] { return (ret = call()) != -FI_EAGAIN; }, nap);
  return waited ? waited : static_cast<int>(ret);
}

/// Waits for as many completions of each side, from here on.
int wait_for(int of_a, int of_b) {
  const auto all_there = [&] { return a.completions >= of_a && b.completions >= of_b; };
  const int ret = progress_until(all_there, await_news);
  a.completions = b.completions = 0;
  return ret;
}

int copy_to_device(side& s, std::size_t length) {
  if (!s.device_memory) return 0;
  return s.gaudi->copy(s.domain, s.device_memory, reinterpret_cast<std::uint64_t>(s.host.data()),
                       length, FI_GAUDI_HOST_TO_DEVICE);
}

int copy_from_device(side& s, std::size_t length) {
  if (!s.device_memory) return 0;
  return s.gaudi->copy(s.domain, reinterpret_cast<std::uint64_t>(s.host.data()), s.device_memory,
                       length, FI_GAUDI_DEVICE_TO_HOST);
}

int fill(side& s, unsigned seed, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i)
    s.host[i] = static_cast<std::byte>((i * 7 + seed) ^ (i >> 8));
  return copy_to_device(s, length);
}

// 1: it has other bytes.
int check(side& s, unsigned seed, std::size_t length) {
  OR_RETURN(copy_from_device(s, length));
  for (std::size_t i = 0; i < length; ++i)
    if (s.host[i] != static_cast<std::byte>((i * 7 + seed) ^ (i >> 8))) return 1;
  return 0;
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

int traffic(variant how) {
  fi_info* const hints = fi_allocinfo();
  if (!hints) return -FI_ENOMEM;
  hints->caps =
      FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | (how.from_device || how.to_device ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                FI_MR_HMEM | FI_MR_ENDPOINT;
  hints->domain_attr->control_progress = hints->domain_attr->data_progress =
      how.automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  hints->fabric_attr->prov_name = ::strdup("gaudi");
  fi_info* info = nullptr;
  int ret = fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info);
  fi_freeinfo(hints);
  if (ret) return ret;
  ret = open(a, info, how.from_device);
  if (!ret) ret = open(b, info, how.to_device);
  fi_freeinfo(info);
  if (!ret) ret = introduce(a, b);
  if (!ret) ret = introduce(b, a);
  for (const std::size_t length : {std::size_t{16}, std::size_t{4000}, longest}) {
    if (!ret) ret = exchange(length, false);
    if (!ret) ret = exchange(length, true);
    if (!ret) ret = access(length);
  }
  return ret ? ret : add();
}

}  // namespace

outcome run_traffic(variant how) {
  automatic = how.automatic;
  const int ret = traffic(how);
  // Each waits for the other's goodbye.
  std::thread at_the_same_time([] { close(a); });
  close(b);
  at_the_same_time.join();
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
