// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/get_info.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto::test {

/// The real tcp core on loopback. `port` 0: any that is free.
inline core::unique_info loopback_info(std::uint16_t port = 0) {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_port = htons(port);
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  core::query q;
  q.addr_format = FI_SOCKADDR_IN;
  q.src_addr = std::as_bytes(std::span(&loopback, 1));
  q.core = base::core_choice::tcp;
  auto found = core::get_info(q);
  EXPECT_TRUE(found);
  return found ? std::move(*found) : core::unique_info();
}

inline std::unique_ptr<core::inner_domain> loopback_domain(std::uint16_t port = 0) {
  auto opened = core::inner_domain::open(loopback_info(port));
  EXPECT_TRUE(opened);
  return opened ? std::move(*opened) : nullptr;
}

/// With GAUDI_TEST_IPC in the environment, endpoints share memory: the same tests for the other
/// way.
inline endpoint::settings small_settings() {
  return {.directed_receive = true,
          .provider_keys = true,
          .eager_size = 4096,
          .staging_chunk = 65536,
          .staging_depth = 4,
          .rx_buffers = 64,
          .unexpected_limit = 1 << 20,
          .kernel = std::getenv("GAUDI_TEST_IPC") ? &ipc::host_kernel::real() : nullptr};
}

/// All goes by the core, whose connections are made again. The hour is also long for a
/// driven_clock.
inline endpoint::settings with_sessions() {
  auto s = small_settings();
  s.kernel = nullptr;
  s.limits.reconnect_timeout = std::chrono::hours(1);
  return s;
}

/// No devices, of whoever is asked for some.
struct without_devices {
  device::device_registry& devices() noexcept { return none; }
  device::device_registry none;
};

inline local_memory memory_of(void* bytes, std::size_t length, void* descriptor = nullptr) {
  without_devices owner;
  const auto m = local_memory::from(bytes, length, descriptor, owner);
  EXPECT_TRUE(m);
  return m ? *m : local_memory();
}
inline local_memory memory_of(std::span<const iovec> parts) {
  without_devices owner;
  const auto m = local_memory::from(parts.data(), nullptr, parts.size(), owner);
  EXPECT_TRUE(m);
  return m ? *m : local_memory();
}

/// An endpoint with everything that it needs, as the fi room sets one up. Several of them talk to
/// each other in one process.
struct node {
  explicit node(const endpoint::settings& config = small_settings(), std::uint16_t port = 0)
      : node(loopback_domain(port), config) {}
  /// Over another core, with room for so many completions, and with rails over another NIC at each
  /// of these addresses.
  node(std::unique_ptr<core::inner_domain> over, endpoint::settings config,
       std::size_t completions = 8, const std::vector<net_address>& nics_at = {})
      : core(std::move(over)), queue(completions) {
    for (const net_address& at : nics_at)
      config.rails.others.push_back({at, other_nics.emplace_back(open_nic()).get()});
    ep.emplace(*core, keys, devices, paths, config);
    ep->use_addresses(addresses);
    ep->messages().use_queue(&queue, false);
  }

  fi_addr_t meet(const net_address& name) {
    const auto added = addresses.add(name);
    EXPECT_TRUE(added);
    return added ? *added : FI_ADDR_NOTAVAIL;
  }
  fi_addr_t meet(const node& other) { return meet(other.ep->name()); }

  /// A request that reports to `queue`.
  completion_spec completion(void* context, std::uint64_t flags = 0) {
    return {.queue = &queue, .context = context, .flags = flags, .report = true};
  }

  int send(fi_addr_t to, const local_memory& memory, std::uint64_t tag, void* context) {
    return ep->send(memory, {.to = to,
                             .tag = tag,
                             .wire_flags = wire::tagged,
                             .completion = completion(context, FI_SEND | FI_TAGGED)});
  }
  int receive(const local_memory& memory, std::uint64_t tag, void* context) {
    return ep->receives().receive(
        memory,
        {.tag = tag, .tagged = true, .completion = completion(context, FI_RECV | FI_TAGGED)});
  }

  /// Makes `bytes` known to peers under a key of the provider's choice (`requested` 0) or under
  /// that one.
  void expose(reg::region& r, std::span<std::byte> bytes, std::uint64_t requested = 0) {
    r.address = reinterpret_cast<std::uint64_t>(bytes.data());
    r.length = bytes.size();
    r.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    r.virtual_address = true;
    auto mr = core->register_memory(bytes.data(), bytes.size(), r.access);
    ASSERT_TRUE(mr);
    r.core = std::move(*mr);
    if (requested) {
      ASSERT_TRUE(keys.add_requested(r, requested));
    } else {
      keys.add_chosen_here(r);
    }
  }

  /// Takes the oldest completion.
  cq_entry take() {
    if (queue.empty()) return {.error = FI_ENODATA};
    const cq_entry entry = queue.front();
    queue.pop();
    return entry;
  }

  std::unique_ptr<core::inner_domain> core;
  std::vector<std::unique_ptr<reg::other_nic>> other_nics;
  reg::key_table keys;
  device::device_registry devices;
  path_counters paths;
  address_vector addresses;
  completion_queue queue;
  std::optional<endpoint> ep;

 private:
  [[nodiscard]] std::unique_ptr<reg::other_nic> open_nic() const {
    auto opened =
        core::inner_domain::open_beside(*core, core::unique_info(fi_dupinfo(&core->info())));
    EXPECT_TRUE(opened);
    return std::make_unique<reg::other_nic>(std::move(*opened), other_nics.size() + 1,
                                            reg::other_nic::settings{});
  }
};

/// Time that passes only when a test says so.
struct driven_clock final : base::clock::source {
  base::clock::time_point now() noexcept override {
    if (when_asked) std::exchange(when_asked, nullptr)();
    return at;
  }
  base::clock::time_point at{std::chrono::hours(1)};
  std::function<void()> when_asked{};  // the next time, and once
};

/// An enabled one.
struct live_node : node {
  explicit live_node(endpoint::settings config = small_settings()) : node(config) {
    EXPECT_TRUE(ep->enable());
  }
};

/// Progresses the nodes in turn until `fin`. False: it never came to be (the time is for a hang,
/// not for a slow machine).
template <class Done>
bool progress_until(std::initializer_list<node*> nodes, Done&& done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    for (node* n : nodes) n->ep->progress();
  }
  return true;
}

/// Repeats a call that starts an operation while there is no connection or credit.
template <class Call>
int post(std::initializer_list<node*> nodes, Call&& call) {
  int ret = -FI_EAGAIN;
  const bool over = progress_until(nodes, [&] { return (ret = call()) != -FI_EAGAIN; });
  return over ? ret : -FI_ETIMEDOUT;
}

/// The next completion of `of`, while all progress. error FI_ETIMEDOUT: none came.
inline cq_entry wait(node& of, std::initializer_list<node*> nodes) {
  if (!progress_until(nodes, [&] { return !of.queue.empty(); })) return {.error = FI_ETIMEDOUT};
  return of.take();
}

inline std::vector<std::byte> counting(std::size_t length, unsigned seed = 1) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + seed) ^ (i >> 8));
  return bytes;
}

/// A context that is a number.
inline void* number(std::uintptr_t n) {
  return reinterpret_cast<void*>(n);
}

/// Sends `length` bytes from a to b and checks what arrives.
inline void pass(live_node& a, fi_addr_t to, live_node& b, std::size_t length, std::uint64_t tag) {
  auto sent = counting(length, static_cast<unsigned>(tag));
  std::vector<std::byte> got(length);
  ASSERT_EQ(b.receive(memory_of(got.data(), length), tag, number(2)), 0);
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), length), tag, &sent); }),
            0);
  const cq_entry received = wait(b, {&a, &b});
  EXPECT_EQ(received.error, 0) << length << " bytes";
  EXPECT_EQ(received.length, length);
  EXPECT_EQ(received.tag, tag);
  EXPECT_EQ(received.context, number(2));
  EXPECT_EQ(got, sent) << length << " bytes";
  EXPECT_EQ(wait(a, {&a, &b}).context, &sent);
}

}  // namespace gaudi::proto::test
