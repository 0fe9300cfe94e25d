// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/domain_counters.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/counters_page.hpp"
#include "device/counters.hpp"
#include "fi/rdm/domain.hpp"
#include "opened.hpp"

namespace gaudi::fi {
namespace {

namespace counters = base::counters;

std::size_t place_of(counters::block_kind kind, std::string_view name) {
  for (const auto& v : counters::values_of(kind))
    if (v.name == name) return v.place;
  return counters::max_values;
}

/// Where in `all` the counter is, in 64-bit numbers.
template <class All, class Counter>
std::size_t place_in(const All& all, const Counter& counter) {
  return static_cast<std::size_t>(reinterpret_cast<const char*>(&counter) -
                                  reinterpret_cast<const char*>(&all)) /
         sizeof(std::uint64_t);
}

#define EXPECT_PLACE(kind, all, member, name) \
  EXPECT_EQ(place_in(all, (all).member), place_of(counters::block_kind::kind, name))

TEST(domain_counters, are_where_their_names_say) {
  const domain_counters d{};
  EXPECT_PLACE(domain, d, registrations.hits, "mr_cache_hits");
  EXPECT_PLACE(domain, d, registrations.misses, "mr_cache_misses");
  EXPECT_PLACE(domain, d, registrations.made, "registrations");
  EXPECT_PLACE(domain, d, registrations.evictions, "evictions");
  EXPECT_PLACE(domain, d, registrations.cached, "cached_registrations");
  EXPECT_PLACE(domain, d, registrations.cached_bytes, "cached_bytes");
  EXPECT_PLACE(domain, d, registrations.refusals, "refused_registrations");
  EXPECT_PLACE(domain, d, registrations.flushes, "flushes");
  EXPECT_PLACE(domain, d, endpoints, "endpoints");
  EXPECT_PLACE(domain, d, paths.eager_ops, "eager_ops");
  EXPECT_PLACE(domain, d, paths.eager_bytes, "eager_bytes");
  EXPECT_PLACE(domain, d, paths.direct_ops, "direct_ops");
  EXPECT_PLACE(domain, d, paths.direct_bytes, "direct_bytes");
  EXPECT_PLACE(domain, d, paths.staged_ops, "staged_ops");
  EXPECT_PLACE(domain, d, paths.staged_bytes, "staged_bytes");
  EXPECT_PLACE(domain, d, paths.zero_copy_ops, "zero_copy_ops");
  EXPECT_PLACE(domain, d, paths.zero_copy_bytes, "zero_copy_bytes");
  EXPECT_PLACE(domain, d, paths.cma_ops, "cma_ops");
  EXPECT_PLACE(domain, d, paths.cma_bytes, "cma_bytes");
  EXPECT_PLACE(domain, d, paths.shm_ops, "shm_ops");
  EXPECT_PLACE(domain, d, paths.engine_ops, "engine_ops");
  EXPECT_PLACE(domain, d, paths.engine_bytes, "engine_bytes");
  EXPECT_PLACE(domain, d, paths.dmabuf_ipc_ops, "dmabuf_ipc_ops");
  EXPECT_PLACE(domain, d, paths.dmabuf_ipc_bytes, "dmabuf_ipc_bytes");
  EXPECT_PLACE(domain, d, paths.stalls.peer, "peer_stalls");
  EXPECT_PLACE(domain, d, paths.stalls.local, "local_stalls");
  EXPECT_PLACE(domain, d, paths.connections.made, "connections_made");
  EXPECT_PLACE(domain, d, paths.connections.lost, "connections_lost");
  EXPECT_PLACE(domain, d, paths.connections.closed, "connections_closed");
  EXPECT_PLACE(domain, d, paths.again.packets, "packets_again");
  EXPECT_PLACE(domain, d, paths.again.rma, "rma_again");
  EXPECT_PLACE(domain, d, paths.again.elsewhere, "connections_moved");
}

TEST(rail_counters, are_where_their_names_say) {
  const proto::rail_counters d{};
  EXPECT_EQ(counters::value_count(counters::block_kind::rail), sizeof d / sizeof(std::uint64_t));
  EXPECT_PLACE(rail, d, ops, "ops");
  EXPECT_PLACE(rail, d, bytes, "bytes");
  EXPECT_PLACE(rail, d, made, "made");
  EXPECT_PLACE(rail, d, lost, "lost");
  EXPECT_PLACE(rail, d, up, "up");
  EXPECT_PLACE(rail, d, flushes, "flushes");
}

TEST(device_counters, are_where_their_names_say) {
  const device::counters d{};
  EXPECT_EQ(counters::value_count(counters::block_kind::device), sizeof d / sizeof(std::uint64_t));
  EXPECT_PLACE(device, d, exports, "exports");
  EXPECT_PLACE(device, d, stale_refusals, "stale_refusals");
  EXPECT_PLACE(device, d, copies, "copies");
  EXPECT_PLACE(device, d, host_to_device_bytes, "host_to_device_bytes");
  EXPECT_PLACE(device, d, device_to_host_bytes, "device_to_host_bytes");
  EXPECT_PLACE(device, d, device_to_device_bytes, "device_to_device_bytes");
  EXPECT_PLACE(device, d, zero_copy_bytes, "zero_copy_bytes");
  EXPECT_PLACE(device, d, staged_bytes, "staged_bytes");
}

/// The process's open block of that kind and name, or null.
const counters::block* block_of(counters::block_kind kind, const std::string& name) {
  const auto* const first = reinterpret_cast<const counters::block*>(
      reinterpret_cast<const std::byte*>(counters::page::instance().header()) +
      counters::header_size);
  for (std::size_t i = 0; i < counters::block_count; ++i)
    if (first[i].head.kind == kind && first[i].head.state == counters::block_state::open &&
        first[i].head.name.data() == name)
      return &first[i];
  return nullptr;
}

TEST(domain_counters, of_an_open_domain_are_in_the_page) {
  const test::opened o;
  domain& d = domain::of(o.domain.get());
  const counters::block* const seen =
      block_of(counters::block_kind::domain, d.core().info().domain_attr->name);
  ASSERT_NE(seen, nullptr);
  EXPECT_STREQ(seen->head.detail.data(), "tcp");
  const base::scoped_domain_lock lock(d.lock());
  d.paths().eager_bytes = 77;
  EXPECT_EQ(seen->values[place_of(counters::block_kind::domain, "eager_bytes")], 77U);
}

class opened_device : public test::with_device {};

TEST_F(opened_device, is_in_the_page_with_its_copies) {
  const auto at = allocate(4096);
  std::vector<std::byte> host(4096);
  ASSERT_EQ(o_.ops().copy(o_.domain.get(), at, reinterpret_cast<std::uintptr_t>(host.data()), 4096,
                          FI_GAUDI_HOST_TO_DEVICE),
            0);
  const counters::block* const seen = block_of(counters::block_kind::device, "simulated Gaudi2");
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->values[place_of(counters::block_kind::device, "host_to_device_bytes")], 4096U);
}

}  // namespace
}  // namespace gaudi::fi
