// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A client with the calls of HCL, Habana's collectives: hcl/README.md lists what HCL assumes of a
// provider and which of these tests shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "hcl/component.hpp"
#include "synapse_guest.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

world hcl_world(int ranks, const char* tcp_hmem = "on") {
  return {
      .ranks = ranks,
      .environment = {{"FI_PROVIDER", "ofi_gaudi"},
                      {"FI_PROVIDER_PATH", std::getenv("HCL_PROVIDER_PATH")},
                      {"FI_GAUDI_TCP_HMEM", tcp_hmem},
                      // Where exports are udmabuf's, one may have 64 MiB, and is the whole pool.
                      {"HLSIM_HBM", "64M"},
                      {"HLSIM_HBM_PAGE", "16M"}}};
}

/// The machine may have no interface but loopback, which HCL excludes by itself.
hcl::configuration any_interface(int module_id, bool gaudi_direct) {
  return {.gaudi_direct = gaudi_direct,
          .socket_ifname = {},
          .tcp_exclude_if = "^$",
          .verbs_exclude_if = {},
          .module_id = module_id};
}

hcl::choice chosen(const hcl::configuration& how) {
  auto made = hcl::choose(how);
  if (!made) throw std::runtime_error("HCL finds no provider");
  return *std::move(made);
}

template <class Value>
std::vector<Value> gather(rank& r, const Value& own) {
  std::vector<Value> all;
  for (const std::string& one : r.all_gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    Value value;
    std::memcpy(&value, one.data(), sizeof value);
    all.push_back(value);
  }
  return all;
}

/// Both directions to one peer, for each QP set.
struct connection {
  hcl::comm to;
  hcl::comm from;
};

/// ofi_communicator::initializeCommunicator() and updateConnections(): the lower rank connects
/// first.
std::vector<std::vector<connection>> connect_all(rank& r, hcl::component& c) {
  constexpr unsigned sets = hcl::component::sets;
  using listeners = std::array<hcl::listener, sets>;
  const auto size = static_cast<std::size_t>(r.size());
  std::vector<listeners> own(size);
  std::vector<listeners> of_peers;
  for (int peer = 0; peer < r.size(); ++peer) {
    listeners& mine = own[static_cast<std::size_t>(peer)];
    for (unsigned set = 0; peer != r.id() && set < sets; ++set) mine[set] = c.listen(set);
    auto all = gather(r, mine);
    if (peer == r.id()) of_peers = std::move(all);
  }
  std::vector<std::vector<connection>> made(size, std::vector<connection>(sets));
  const auto id = static_cast<std::size_t>(r.id());
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (peer == id) continue;
    for (unsigned set = 0; set < sets; ++set) {
      connection& one = made[peer][set];
      const auto connect = [&] { one.to = c.connect(of_peers[peer][set]); };
      const auto accept = [&] { one.from = c.accept(own[peer][set]); };
      if (id < peer) {
        connect();
        accept();
      } else {
        accept();
        connect();
      }
    }
  }
  return made;
}

/// Memory of the rank: `out` for each peer, then `in` for each.
struct buffers {
  std::uint64_t base;
  std::size_t piece;
  std::size_t ranks;
  [[nodiscard]] std::uint64_t out(int peer) const {
    return base + static_cast<std::size_t>(peer) * piece;
  }
  [[nodiscard]] std::uint64_t in(int peer) const { return out(peer) + ranks * piece; }
};

bytes expected(int from, int to, std::size_t size) {
  return bytes_of(static_cast<std::uint64_t>(from * 8 + to) + size, size);
}

/// One round of an all-to-all exchange.
template <class Put, class Get>
void exchange(rank& r, hcl::component& c, const std::vector<std::vector<connection>>& peers,
              const buffers& own, std::size_t size, unsigned set, Put put, Get get) {
  std::vector<hcl::request> requests(static_cast<std::size_t>(2 * r.size()));
  const auto request = [&](int peer, int way) -> hcl::request& {
    return requests[static_cast<std::size_t>(2 * peer + way)];
  };
  for (int peer = 0; peer < r.size(); ++peer) {
    if (peer == r.id()) continue;
    put(own.out(peer), expected(r.id(), peer, size));
    c.receive(peers[static_cast<std::size_t>(peer)][set].from, own.in(peer), size,
              request(peer, 0));
  }
  for (int peer = 0; peer < r.size(); ++peer)
    if (peer != r.id())
      c.send(peers[static_cast<std::size_t>(peer)][set].to, own.out(peer), size, request(peer, 1));
  for (int peer = 0; peer < r.size(); ++peer) {
    if (peer == r.id()) continue;
    c.wait(request(peer, 0), set);
    c.wait(request(peer, 1), set);
    EXPECT_EQ(request(peer, 0).size, size);
    expect_same(expected(peer, r.id(), size), get(own.in(peer), size), "received piece");
  }
}

const std::vector<std::size_t> sizes{4, 1000, 65536, 1 << 20};
constexpr std::size_t piece = 1 << 20;

/// Over tcp HCL itself registers nothing (ofi_t::isMRLocal); this client does when asked to.
void exchange_device_memory(rank& r, bool registers) {
  synapse_user synapse;
  ASSERT_EQ(synSuccess, synapse.acquire(static_cast<std::uint32_t>(r.id())));
  const auto scal = synapse.pool();
  const std::uint64_t memory = synapse.allocate(2 * piece * static_cast<std::size_t>(r.size()));
  {
    const hcl::choice choice = chosen(any_interface(r.id(), true));
    hcl::component c(choice.info, r.id(), true);
    if (registers || choice.mr_local) {
      const auto export_dmabuf =
          synapse.of<hcl::export_function>("hlthunk_device_mapped_memory_export_dmabuf_fd");
      c.register_pool({.device_fd = synapse.descriptor(),
                       .base = scal.device_base_allocated_address,
                       .offset = scal.device_base_address - scal.device_base_allocated_address,
                       .size = scal.totalSize},
                      export_dmabuf);
    }
    const auto peers = connect_all(r, c);
    const buffers own{memory, piece, static_cast<std::size_t>(r.size())};
    unsigned set = 0;
    for (const std::size_t size : sizes) {
      exchange(
          r, c, peers, own, size, set++ % hcl::component::sets,
          [&](std::uint64_t to, const bytes& data) { synapse.put(to, data); },
          [&](std::uint64_t from, std::size_t length) { return synapse.get(from, length); });
    }
    EXPECT_EQ(c.flushes() > 0, registers || choice.mr_local);
    r.barrier();
  }
  EXPECT_EQ(synSuccess, synapse.release()) << "everything was closed";
}

TEST(hcl_client, exchanges_device_memory_of_a_registered_pool_with_flushes) {
  run(hcl_world(2), [](rank& r) { exchange_device_memory(r, true); });
}

TEST(hcl_client, of_four_ranks_does_so_too) {
  run(hcl_world(4), [](rank& r) { exchange_device_memory(r, true); });
}

// What HCL does over tcp, with HCL_FABRIC_FLUSH=0: the first use of an address attaches the guest.
TEST(hcl_client, exchanges_device_memory_that_was_never_registered) {
  run(hcl_world(2), [](rank& r) { exchange_device_memory(r, false); });
}

TEST(hcl_client, exchanges_host_memory) {
  run(hcl_world(2, "off"), [](rank& r) {
    const hcl::choice choice = chosen(any_interface(r.id(), false));
    hcl::component c(choice.info, r.id(), false);
    bytes memory(2 * piece * 2);
    if (choice.mr_local) c.register_host(memory.data(), memory.size());
    const auto peers = connect_all(r, c);
    const buffers own{reinterpret_cast<std::uint64_t>(memory.data()), piece, 2};
    const auto at = [](std::uint64_t address) { return reinterpret_cast<std::byte*>(address); };
    for (const std::size_t size : sizes) {
      exchange(
          r, c, peers, own, size, 0,
          [&](std::uint64_t to, const bytes& data) { std::copy(data.begin(), data.end(), at(to)); },
          [&](std::uint64_t from, std::size_t length) {
            return bytes(at(from), at(from) + length);
          });
    }
    r.barrier();
  });
}

// The flush region lies in SCAL's own memory, but is the dma-buf's: what is read is the pool's.
TEST(hcl_client, flushes_by_reading_the_first_bytes_of_the_pool) {
  run(hcl_world(1), [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    const auto scal = synapse.pool();
    const bytes wanted = bytes_of(3, 4);
    const std::uint64_t first = synapse.allocate(4096);
    ASSERT_EQ(first, scal.device_base_address) << "the first that is allocated";
    synapse.put(first, wanted);
    const hcl::choice choice = chosen(any_interface(0, true));
    hcl::component c(choice.info, 0, true);
    c.register_pool(
        {.device_fd = synapse.descriptor(),
         .base = scal.device_base_allocated_address,
         .offset = scal.device_base_address - scal.device_base_allocated_address,
         .size = scal.totalSize},
        synapse.of<hcl::export_function>("hlthunk_device_mapped_memory_export_dmabuf_fd"));
    c.flush();
    std::uint32_t word = 0;
    std::memcpy(&word, wanted.data(), sizeof word);
    EXPECT_EQ(c.flushed_word(), word);
  });
}

// HCL takes the first entry that fits, so there must be no other provider's.
TEST(hcl_client, finds_no_other_provider_by_the_bare_name) {
  run(hcl_world(1), [](rank&) {
    const hcl::choice choice = chosen(any_interface(0, false));
    for (const fi_info* i = choice.all.get(); i; i = i->next) {
      const std::string name = i->fabric_attr->prov_name;
      EXPECT_EQ(name, on_verbs() ? "ofi_gaudi;verbs;ofi_gaudi" : "ofi_gaudi;tcp;ofi_gaudi");
      EXPECT_TRUE(hcl::core_of(name).has_value());
    }
    EXPECT_EQ(choice.core == hcl::core_provider::verbs, on_verbs());
    EXPECT_EQ(choice.info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    EXPECT_EQ(choice.info->domain_attr->mr_mode & FI_MR_LOCAL, FI_MR_LOCAL);
    if (!on_verbs()) return;
    for (const fi_info* i = choice.all.get(); i; i = i->next) {
      ASSERT_NE(i->nic, nullptr) << "HCL reads these without a check";
      EXPECT_STREQ(i->nic->device_attr->name, i->domain_attr->name);
      EXPECT_GT(i->nic->link_attr->mtu, 0U);
    }
  });
}

TEST(hcl_client, finds_the_provider_by_the_whole_name_and_without_a_filter) {
  const char* const whole = on_verbs() ? "verbs;ofi_gaudi" : "tcp;ofi_gaudi";
  for (const char* const filter : {whole, ""}) {
    world w = hcl_world(1);
    w.environment[0].second = filter;
    run(w, [whole](rank&) {
      if (!*std::getenv("FI_PROVIDER")) unsetenv("FI_PROVIDER");
      const hcl::choice choice = chosen(any_interface(0, false));
      bool listed = false;
      for (const fi_info* i = choice.all.get(); i; i = i->next)
        listed = listed || std::string(whole) == i->fabric_attr->prov_name;
      EXPECT_TRUE(listed);
    });
  }
}

TEST(hcl_client, chooses_interfaces_by_the_cores_names) {
  if (on_verbs()) GTEST_SKIP() << "of tcp";
  run(hcl_world(1), [](rank&) {
    hcl::configuration how = any_interface(0, false);
    how.socket_ifname = "lo";
    EXPECT_STREQ(chosen(how).info->domain_attr->name, "lo");
    how.socket_ifname = "gaudi";
    EXPECT_FALSE(hcl::choose(how)) << "no such interface";
    const auto by_default = hcl::choose({});
    if (!by_default) return;
    EXPECT_STRNE(by_default->info->domain_attr->name, "lo") << "it is excluded";
  });
}

// HCL then goes on with host memory, which works.
TEST(hcl_client, is_not_offered_device_memory_over_tcp_unless_asked_for) {
  if (on_verbs()) GTEST_SKIP() << "of tcp";
  run(hcl_world(1, "off"), [](rank&) {
    EXPECT_FALSE(hcl::choose(any_interface(0, true)));
    EXPECT_TRUE(hcl::choose(any_interface(0, false)));
  });
}

}  // namespace
}  // namespace gaudi::test
