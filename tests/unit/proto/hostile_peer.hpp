// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/get_info.hpp"
#include "proto/endpoint.hpp"

/// A peer that speaks the core's protocol, but need not speak ours, and its victim.
namespace gaudi::proto::test {

using namespace std::chrono_literals;

inline core::unique_info loopback_tcp() {
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
  explicit victim(std::chrono::seconds connect_timeout = 0s, base::clock clock = {}) {
    auto opened = core::inner_domain::open(loopback_tcp());
    core = std::move(*opened);
    target.resize(4096);
    region.address = reinterpret_cast<std::uint64_t>(target.data());
    region.length = target.size();
    region.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    region.virtual_address = true;
    region.core = *core->register_memory(target.data(), target.size(), region.access);
    EXPECT_TRUE(keys.add_requested(region, 77));
    ep.emplace(
        *core, keys, devices, paths,
        endpoint::settings{.directed_receive = true,
                           .provider_keys = false,
                           .eager_size = 4096,
                           .staging_chunk = 65536,
                           .staging_depth = 4,
                           .rx_buffers = 64,
                           .unexpected_limit = 1 << 20,
                           .limits = {.connect_timeout = connect_timeout, .reconnect_timeout = {}},
                           .clock = clock});
    ep->use_addresses(addresses);
    ep->messages().use_queue(&queue, false);
    EXPECT_TRUE(ep->enable());
  }

  std::unique_ptr<core::inner_domain> core;
  std::vector<std::byte> target;
  reg::region region;
  reg::key_table keys;
  device::device_registry devices;
  path_counters paths;
  address_vector addresses;
  completion_queue queue{64};
  std::optional<endpoint> ep;
};

/// A connected endpoint of the core alone.
struct raw_client {
  /// `source`: the last number of its address 127.0.0.x; 0: as the kernel chooses.
  explicit raw_client(std::uint8_t source = 0) : info(loopback_tcp()) {
    fid_fabric* f = nullptr;
    fi_fabric(info->fabric_attr, &f, nullptr);
    fabric.reset(f);
    fid_domain* d = nullptr;
    // As core::inner_domain has it.
    info->domain_attr->mr_mode |= FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
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
    if (source != 0) {
      auto& here = *static_cast<sockaddr_in*>(info->src_addr);
      here.sin_addr.s_addr = htonl((IN_LOOPBACKNET << IN_CLASSA_NSHIFT) + source);
      here.sin_port = 0;
    } else {
      std::free(info->src_addr);
      info->src_addr = nullptr;
      info->src_addrlen = 0;
    }
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
        if (event == FI_CONNECTED) confirm(answer);
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

  /// Says that the answer has come.
  void confirm(const hello& answer) {
    const wire::header head{wire::kind::credit, 0, 0, 0, answer.connection};
    send(&head, sizeof head);
  }
  bool send(const void* bytes, std::size_t length) {
    const auto* first = static_cast<const std::byte*>(bytes);
    auto& kept = sent.emplace_back(first, first + length);
    return fi_send(ep.get(), kept.data(), length, nullptr, 0, nullptr) == 0;
  }
  /// Makes room for `count` messages, which `received` gets.
  void listen(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto& room = rooms.emplace_back(1024);
      fi_recv(receives.get(), room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, &room);
    }
  }
  /// The next message of this kind.
  template <class Fields>
  Fields hear(victim& v, wire::kind what) {
    Fields fields{};
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < give_up) {
      v.ep->progress();
      progress();
      while (!received.empty()) {
        const auto message = std::move(received.front());
        received.pop_front();
        std::memcpy(&fields, message.data(), std::min(message.size(), sizeof fields));
        if (fields.head.what == what) return fields;
        passed_over.push_back(fields.head.what);
      }
    }
    ADD_FAILURE() << "no message of kind " << static_cast<int>(what);
    return fields;
  }
  void progress() {
    fi_cq_msg_entry entry{};
    if (fi_cq_read(queue.get(), &entry, 1) == 1 && (entry.flags & FI_RECV))
      received.push_back(*static_cast<std::vector<std::byte>*>(entry.op_context));
    std::uint32_t event = 0;
    std::byte space[512];
    if (fi_eq_read(events.get(), &event, space, sizeof space, 0) > 0 && event == FI_SHUTDOWN)
      shut = true;
  }

  std::deque<std::vector<std::byte>> sent;   // the core's until the endpoint closes
  std::deque<std::vector<std::byte>> rooms;  // likewise
  std::deque<std::vector<std::byte>> received;
  std::vector<wire::kind> passed_over;  // by hear()
  core::unique_info info;
  core::unique_fid<fid_fabric> fabric;
  core::unique_fid<fid_domain> domain;
  core::unique_fid<fid_eq> events;
  core::unique_fid<fid_cq> queue;
  core::unique_fid<fid_ep> receives;
  core::unique_fid<fid_ep> ep;
  bool shut = false;
};

/// A good one, of a peer with a listener at port `instance`.
inline hello greeting(std::uint64_t instance) {
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

/// A source asks where a message is to go that the victim receives into `memory`.
inline void offer_staged(victim& v, raw_client& source, const hello& theirs,
                         const local_memory& memory, std::uint64_t operation) {
  const completion_spec completion{.queue = &v.queue, .report = true};
  EXPECT_EQ(v.ep->receives().receive(memory, {.completion = completion}), 0);
  struct {
    wire::eager_fields message;
    wire::rts_fields rts;
  } packet{};
  packet.message.head = {wire::kind::rts, wire::needs_cts | wire::want_fin, 0, 0,
                         theirs.connection};
  packet.message.operation = operation;
  packet.rts.operation = operation;
  packet.rts.length = memory.length();
  const std::size_t length = sizeof packet.message + offsetof(wire::rts_fields, segments);
  EXPECT_TRUE(source.send(&packet, length));
}

}  // namespace gaudi::proto::test
