// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer that speaks the core's protocol, but not ours: wrong greetings, and every kind of packet
// with random contents.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "core/get_info.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;

core::unique_info loopback_info() {
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  core::query q;
  q.addr_format = FI_SOCKADDR_IN;
  q.src_addr = std::as_bytes(std::span(&loopback, 1));
  q.core = base::core_choice::tcp;
  auto found = core::get_info(q);
  return found ? std::move(*found) : core::unique_info();
}

/// A whole endpoint of ours, with a region that peers may write to.
struct victim {
  victim() {
    auto opened = core::inner_domain::open(loopback_info());
    core = std::move(*opened);
    target.resize(4096);
    region.address = reinterpret_cast<std::uint64_t>(target.data());
    region.length = target.size();
    region.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    region.virtual_address = true;
    region.core = *core->register_memory(target.data(), target.size(), region.access);
    EXPECT_TRUE(keys.add_requested(region, 77));
    ep.emplace(*core, keys, paths,
               endpoint::settings{.directed_receive = true,
                                  .provider_keys = false,
                                  .eager_size = 4096,
                                  .staging_chunk = 65536,
                                  .staging_depth = 4,
                                  .rx_buffers = 64,
                                  .unexpected_limit = 1 << 20});
    ep->use_addresses(addresses);
    ep->use_receive_queue(&queue, false);
    EXPECT_TRUE(ep->enable());
  }

  std::unique_ptr<core::inner_domain> core;
  std::vector<std::byte> target;
  reg::region region;
  reg::key_table keys;
  path_counters paths;
  address_vector addresses;
  completion_queue queue{64};
  std::optional<endpoint> ep;
};

/// A connected endpoint of the core alone.
struct raw_client {
  raw_client() : info(loopback_info()) {
    fid_fabric* f = nullptr;
    fi_fabric(info->fabric_attr, &f, nullptr);
    fabric.reset(f);
    fid_domain* d = nullptr;
    fi_domain(f, info.get(), &d, nullptr);
    domain.reset(d);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_NONE;
    fid_eq* e = nullptr;
    fi_eq_open(f, &eq_attr, &e, nullptr);
    events.reset(e);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    fid_cq* c = nullptr;
    fi_cq_open(d, &cq_attr, &c, nullptr);
    queue.reset(c);
    // The shared context of its own endpoint, as the info asks for one.
    fid_ep* srx = nullptr;
    fi_srx_context(d, info->rx_attr, &srx, nullptr);
    receives.reset(srx);
    fid_ep* p = nullptr;
    info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    std::free(info->src_addr);
    info->src_addr = nullptr;
    info->src_addrlen = 0;
    fi_endpoint(d, info.get(), &p, nullptr);
    ep.reset(p);
    fi_ep_bind(p, &e->fid, 0);
    fi_ep_bind(p, &c->fid, FI_TRANSMIT | FI_RECV);
    fi_ep_bind(p, &srx->fid, 0);
    fi_enable(p);
  }

  /// FI_CONNECTED, or a positive error code when refused; `answer` gets what the peer said.
  int connect(victim& v, const void* greeting, std::size_t length, hello& answer) {
    fi_connect(ep.get(), v.ep->name().raw(), greeting, length);
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < give_up) {
      v.ep->progress();
      std::uint32_t event = 0;
      alignas(fi_eq_cm_entry) std::byte space[512];
      const ssize_t got = fi_eq_read(events.get(), &event, space, sizeof space, 0);
      if (got > 0) {
        const auto said = static_cast<std::size_t>(got) - sizeof(fi_eq_cm_entry);
        std::memcpy(&answer, space + sizeof(fi_eq_cm_entry), std::min(said, sizeof answer));
        return static_cast<int>(event);
      }
      if (got == -FI_EAVAIL) {
        std::byte said[256];
        fi_eq_err_entry error{};
        error.err_data = said;
        error.err_data_size = sizeof said;
        fi_eq_readerr(events.get(), &error, 0);
        if (error.err_data)
          std::memcpy(&answer, error.err_data, std::min(error.err_data_size, sizeof answer));
        return error.err;
      }
    }
    return -1;
  }

  bool send(const void* bytes, std::size_t length) {
    return fi_inject(ep.get(), bytes, length, 0) == 0;
  }
  void progress() {
    fi_cq_msg_entry entry{};
    fi_cq_read(queue.get(), &entry, 1);
    std::uint32_t event = 0;
    std::byte space[512];
    if (fi_eq_read(events.get(), &event, space, sizeof space, 0) > 0 && event == FI_SHUTDOWN)
      shut = true;
  }

  core::unique_info info;
  core::unique_fid<fid_fabric> fabric;
  core::unique_fid<fid_domain> domain;
  core::unique_fid<fid_eq> events;
  core::unique_fid<fid_cq> queue;
  core::unique_fid<fid_ep> receives;
  core::unique_fid<fid_ep> ep;
  bool shut = false;
};

hello greeting(std::uint64_t instance) {
  hello h{};
  h.magic = wire::magic;
  h.version = wire::version;
  h.connection = 1;
  h.eager_limit = 65536;
  h.instance = instance;
  h.data_window = 64;
  h.control_window = 64;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = static_cast<in_port_t>(instance);
  set_address(h, net_address(&name, sizeof name));
  return h;
}

TEST(hostile_peer, another_wire_version_is_refused_and_told_ours) {
  victim v;
  raw_client client;
  hello h = greeting(1);
  h.version = wire::version + 1;
  hello answer{};
  EXPECT_EQ(client.connect(v, &h, sizeof h, answer), FI_ECONNREFUSED);
  EXPECT_EQ(answer.magic, wire::magic);
  EXPECT_EQ(answer.version, wire::version);
  EXPECT_EQ(answer.reason, static_cast<std::uint8_t>(wire::reject_reason::wrong_version));
}

TEST(hostile_peer, greetings_that_say_nothing_are_refused) {
  victim v;
  std::mt19937 random(1);
  for (const std::size_t length : {0U, 5U, 47U, 48U, 100U}) {
    raw_client client;
    std::vector<unsigned char> bytes(length);
    for (auto& b : bytes) b = static_cast<unsigned char>(random());
    hello answer{};
    EXPECT_EQ(client.connect(v, bytes.data(), bytes.size(), answer), FI_ECONNREFUSED)
        << length << " bytes";
  }
}

// A packet that is right in more and more of its fields, so that every check behind the first is
// reached, too.
std::size_t random_packet(std::mt19937_64& random, const hello& ours, const hello& theirs,
                          std::byte* packet) {
  constexpr std::array kinds = {wire::kind::eager,     wire::kind::rts,   wire::kind::write,
                                wire::kind::write_rts, wire::kind::read,  wire::kind::read_reply,
                                wire::kind::read_rts,  wire::kind::grant, wire::kind::chunk,
                                wire::kind::slot_free, wire::kind::done,  wire::kind::event,
                                wire::kind::credit};
  for (std::size_t i = 0; i < 128; i += 8) {
    // Small numbers are names, counts and lengths that exist.
    const std::uint64_t word = random() % 2 ? random() % 8 : random();
    std::memcpy(packet + i, &word, 8);
  }
  auto& head = *reinterpret_cast<wire::header*>(packet);
  if (random() % 20) head.what = kinds[random() % kinds.size()];
  if (random() % 4) head.connection = theirs.connection;
  if (head.what == wire::kind::write || head.what == wire::kind::read ||
      head.what == wire::kind::write_rts) {
    auto& fields = *reinterpret_cast<wire::rma_fields*>(packet);
    if (random() % 2) fields.key = 77;
    if (random() % 2) fields.length = random() % 64;
  }
  static_cast<void>(ours);
  return sizeof(wire::header) + random() % (128 - sizeof(wire::header) + 1);
}

TEST(hostile_peer, random_packets_do_no_harm) {
  constexpr int seeds = 1000;
  constexpr int packets = 500;
  victim v;
  int delivered = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    raw_client client;
    const hello ours = greeting(1000 + static_cast<std::uint64_t>(seed));
    hello theirs{};
    ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED) << "seed " << seed;
    for (int i = 0; i < packets && !client.shut; ++i) {
      alignas(8) std::byte packet[128];
      const std::size_t length = random_packet(random, ours, theirs, packet);
      if (client.send(packet, length)) ++delivered;
      v.ep->progress();
      client.progress();
    }
    // Leave some receives behind, for the packets to match.
    if (seed % 4 == 0) {
      const auto memory = local_memory::from(v.target.data(), 100, nullptr);
      EXPECT_EQ(v.ep->receive(*memory, {.tag = 1,
                                        .ignore = 7,
                                        .tagged = true,
                                        .asked = {.queue = &v.queue, .report = true}}),
                0);
    }
    while (!v.queue.empty()) v.queue.pop();
  }
  EXPECT_GT(delivered, 5 * seeds);

  // It still serves the next honest one.
  raw_client honest;
  const hello ours = greeting(60000);
  hello theirs{};
  ASSERT_EQ(honest.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  v.ep->cancel(nullptr);
  while (!v.queue.empty()) v.queue.pop();
  wire::eager_fields message{};
  message.head = {wire::kind::eager, wire::tagged, 0, 0, theirs.connection};
  message.tag = 0x123456789;
  ASSERT_TRUE(honest.send(&message, wire::eager_size(wire::tagged)));
  const auto memory = local_memory::from(v.target.data(), 100, nullptr);
  ASSERT_EQ(v.ep->receive(*memory, {.tag = message.tag,
                                    .tagged = true,
                                    .asked = {.queue = &v.queue, .context = &v, .report = true}}),
            0);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  const auto done = [&] { return !v.queue.empty() && v.queue.front().context == &v; };
  while (!done() && std::chrono::steady_clock::now() < give_up) {
    v.ep->progress();
    honest.progress();
    while (!v.queue.empty() && v.queue.front().context != &v) v.queue.pop();
  }
  EXPECT_TRUE(done());
}

}  // namespace
}  // namespace gaudi::proto
