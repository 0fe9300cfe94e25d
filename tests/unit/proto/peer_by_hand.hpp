// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ipc/fd_listener.hpp"
#include "ipc/host_identity.hpp"
#include "ipc/shm_channel.hpp"
#include "simulated_endpoint.hpp"

/// An endpoint of ours on the simulated core of tests/sim, and a peer whose every packet the test
/// makes and reads: no sockets of the core, no threads, and no time but that which a test lets
/// pass.
namespace gaudi::proto::test {

/// An endpoint of ours and the host of its peer, of two hosts of a network.
struct endpoint_by_itself : simulated_hosts, simulated_endpoint {
  explicit endpoint_by_itself(const endpoint::settings& config = small_settings(),
                              const std::vector<net_address>& nics_at = {},
                              const sim::conditions& how = slow_network(),
                              link_listener* links = nullptr)
      : simulated_hosts(how), simulated_endpoint(net, here, config, nics_at, links) {}
};

/// The way that packets take, both ways. `ring_alone`: and neither process reaches the other's
/// memory; the core, as the peer takes no memory that it is offered; the ring of a peer that
/// sleeps; of one that takes it with take_memory().
enum class packet_way { core, ring, ring_alone, ring_refused, ring_asleep, ring_later };
/// Whether it says that the answer to its request has come.
enum class word { given, kept };

/// The other end of a connection of an endpoint_by_itself.
class peer_by_hand {
 public:
  /// Connects. `number` tells several peers of one endpoint apart; `flags`: of its hello.
  explicit peer_by_hand(endpoint_by_itself& victim, packet_way way = packet_way::core,
                        unsigned number = 1, word confirmation = word::given,
                        std::uint8_t flags = 0)
      : v_(victim), number_(number) {
    ours_.flags = flags;
    open_core_objects();
    connect(way);
    const bool by_core = way == packet_way::core || way == packet_way::ring_refused;
    if (by_core && confirmation == word::given) confirm();
    settle();
  }

  /// Sends the beginning of a packet's fields. The header is completed: only `flags` are the
  /// caller's.
  template <class Fields>
  void say(wire::kind what, Fields fields, std::size_t length = sizeof(Fields),
           std::uint8_t flags = 0) {
    fields.head = {what, flags, 0, 0, theirs_.connection};
    say_as_it_is(&fields, length);
  }
  /// Puts a packet on its way as it is.
  void say_as_it_is(const void* packet, std::size_t length) {
    if (channel_) {
      std::byte* const room = channel_->out().reserve(length);
      ASSERT_TRUE(room);
      std::memcpy(room, packet, length);
      static_cast<void>(channel_->out().commit(false));
      return;
    }
    const auto* first = static_cast<const std::byte*>(packet);
    auto& kept = said_.emplace_back(first, first + length);
    const iovec part{kept.data(), kept.size()};
    fi_msg message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    ASSERT_EQ(fi_sendmsg(ep_.get(), &message, 0), 0);
  }

  void confirm() {
    const wire::header head{wire::kind::credit, 0, 0, 0, theirs_.connection};
    say_as_it_is(&head, sizeof head);
  }

  /// Announces a message of so many bytes, which waits to be asked for. `number`: of the packet, in
  /// a session.
  void announce(std::uint64_t operation, std::size_t length, std::uint32_t number = 0) {
    struct {
      wire::header head;
      std::uint64_t tag = 0;
      std::uint64_t data = 0;
      std::uint64_t operation = 0;
      wire::rts_fields rts{};
    } packet{};
    packet.head = {
        wire::kind::rts, wire::needs_cts | wire::want_fin, 0, 0, theirs_.connection, number, 0};
    packet.operation = operation;
    packet.rts.operation = operation;
    packet.rts.length = length;
    say_as_it_is(&packet, sizeof(wire::eager_fields) + offsetof(wire::rts_fields, segments));
  }
  /// Says where a message of the endpoint's, its `source`, is to be written for `target`.
  void grant(std::uint64_t source, std::uint64_t target, std::size_t length,
             const wire::segment& place, std::uint8_t flags) {
    wire::cts_fields cts{};
    cts.source_operation = source;
    cts.target_operation = target;
    cts.length = length;
    cts.segment_count = 1;
    cts.segments[0] = place;
    say(wire::kind::cts, cts, offsetof(wire::cts_fields, segments) + sizeof place, flags);
  }

  void take_memory() { attach(packet_way::ring); }

  /// Closes the connection: what has left arrives before its end.
  void close() { ep_.reset(); }

  /// Lets all that is under way come to its end, at both ends.
  void settle(std::chrono::milliseconds step = endpoint_by_itself::no_pause_is_longer) {
    for (int i = 0; i < 20; ++i) {
      v_.progress(step);
      v_.net.advance(1'000'000);
      look();
    }
  }
  /// Lets the endpoint look at what is here, while nothing of the network's moves.
  void let_look() {
    for (int i = 0; i < 300; ++i) v_.progress();  // its core's turn comes now and then
    read_ring();
  }

  /// The oldest packet of this kind that has come, which is taken; nothing: there is none.
  template <class Fields>
  std::optional<Fields> heard(wire::kind what) {
    auto first = take<Fields>(by_core_, what);
    return first ? first : take<Fields>(by_ring_, what);
  }
  template <class Fields>
  std::optional<Fields> heard_by(packet_way way, wire::kind what) {
    return take<Fields>(way == packet_way::core ? by_core_ : by_ring_, what);
  }
  /// All of its bytes.
  std::optional<std::vector<std::byte>> heard_whole(wire::kind what) {
    auto first = take_whole(by_core_, what);
    return first ? first : take_whole(by_ring_, what);
  }
  /// How many packets of this kind have come and were not taken.
  [[nodiscard]] std::size_t waiting(wire::kind what) const {
    const auto is = [what](const auto& packet) { return kind_of(packet) == what; };
    return static_cast<std::size_t>(std::count_if(by_core_.begin(), by_core_.end(), is) +
                                    std::count_if(by_ring_.begin(), by_ring_.end(), is));
  }
  /// The endpoint has closed the connection.
  [[nodiscard]] bool is_cut_off() const { return ep_ && is_shut(*ep_); }

  /// Memory of the peer's that the endpoint may read and write.
  wire::segment expose(std::span<std::byte> bytes) {
    fid_mr* mr = nullptr;
    EXPECT_EQ(fi_mr_reg(domain_.get(), bytes.data(), bytes.size(), FI_REMOTE_READ | FI_REMOTE_WRITE,
                        0, 100 + known_.size(), 0, &mr, nullptr),
              0);
    known_.emplace_back(mr);
    return {reinterpret_cast<std::uint64_t>(bytes.data()), fi_mr_key(mr), bytes.size()};
  }

  /// Takes what asks for a connection at its own address from now on (taken()), which it gives.
  net_address listen() {
    fid_pep* listener = nullptr;
    fi_passive_ep(fabric_.get(), info_.get(), &listener, nullptr);
    listener_.reset(listener);
    fi_pep_bind(listener, &events_->fid, 0);
    EXPECT_EQ(fi_listen(listener), 0);
    return net_address(info_->src_addr, info_->src_addrlen);
  }
  /// With what it was asked, and its end; that is closed when it goes.
  struct taken_connection {
    hello asked{};
    core::unique_fid<fid_ep> ep;
  };
  [[nodiscard]] const std::vector<taken_connection>& taken() const noexcept { return taken_; }
  /// Asks for another connection. refusal() says later whether it was refused.
  core::unique_fid<fid_ep> ask(const hello& request) {
    refusal_ = {};
    auto ep = open_endpoint(*info_);
    for (auto* known : {&shut_, &accepted_}) std::erase(*known, &ep->fid);  // of an earlier one
    EXPECT_EQ(fi_connect(ep.get(), v_.ep->name().raw(), &request, sizeof request), 0);
    return ep;
  }
  /// Goes on with the session over another core connection, in place of one that is lost.
  void resume(std::uint8_t route = 0) {
    hello request = ours_;
    request.flags |= wire::resumes;
    wire::set_way(request, route, 0);
    wire::set_resumed(request, theirs_.connection);
    core::unique_fid<fid_ep> ep = ask(request);
    settle(std::chrono::milliseconds(1));  // an attempt has a second
    ASSERT_TRUE(is_accepted(*ep));
    ep_ = std::move(ep);
    const wire::header nothing_came{wire::kind::resume, 0, 0, 0, theirs_.connection, 0, 0};
    say_as_it_is(&nothing_came, sizeof nothing_came);
  }
  [[nodiscard]] wire::reject_reason refusal() const noexcept {
    return static_cast<wire::reject_reason>(refusal_.reason);
  }
  /// All that was said with it.
  [[nodiscard]] const hello& said_with_refusal() const noexcept { return refusal_; }
  /// The endpoint has closed it.
  [[nodiscard]] bool is_shut(const fid_ep& asked) const {
    return std::count(shut_.begin(), shut_.end(), &asked.fid) != 0;
  }
  /// The endpoint has accepted it.
  [[nodiscard]] bool is_accepted(const fid_ep& asked) const {
    return std::count(accepted_.begin(), accepted_.end(), &asked.fid) != 0;
  }
  [[nodiscard]] const hello& said_of_itself() const noexcept { return ours_; }
  [[nodiscard]] std::uint64_t instance_of_endpoint() const noexcept { return theirs_.instance; }
  [[nodiscard]] std::uint32_t known_as() const noexcept { return theirs_.connection; }
  /// Messages that it may send before their credits come back.
  [[nodiscard]] unsigned data_window() const noexcept { return theirs_.data_window; }
  /// Credits that have come back since the connection was made.
  [[nodiscard]] unsigned data_credits() const noexcept { return data_credits_; }
  [[nodiscard]] unsigned control_credits() const noexcept { return control_credits_; }
  [[nodiscard]] ipc::shm_channel& channel() noexcept { return *channel_; }
  /// For sends of the endpoint's.
  fi_addr_t address() { return *v_.addresses.add(address_of(ours_)); }

 private:
  using packets = std::deque<std::vector<std::byte>>;

  void open_core_objects() {
    fabric_ = v_.net.fabric_for(v_.there);
    info_ = v_.net.info_for(v_.there);
    fid_domain* domain = nullptr;
    fi_domain(fabric_.get(), info_.get(), &domain, nullptr);
    domain_.reset(domain);
    fid_eq* events = nullptr;
    fi_eq_attr of_events{};
    fi_eq_open(fabric_.get(), &of_events, &events, nullptr);
    events_.reset(events);
    fid_cq* queue = nullptr;
    fi_cq_attr of_queue{};
    of_queue.size = 1024;
    fi_cq_open(domain, &of_queue, &queue, nullptr);
    queue_.reset(queue);
    fid_ep* receives = nullptr;
    fi_srx_context(domain, info_->rx_attr, &receives, nullptr);
    receives_.reset(receives);
    for (int i = 0; i < 256; ++i) {
      auto& room = rooms_.emplace_back(8192);
      fi_recv(receives, room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, &room);
    }
    ep_ = open_endpoint(*info_);
  }

  core::unique_fid<fid_ep> open_endpoint(fi_info& info) {
    fid_ep* ep = nullptr;
    fi_endpoint(domain_.get(), &info, &ep, nullptr);
    core::unique_fid<fid_ep> opened(ep);
    fi_ep_bind(ep, &events_->fid, 0);
    fi_ep_bind(ep, &queue_->fid, FI_TRANSMIT | FI_RECV);
    fi_ep_bind(ep, &receives_->fid, 0);
    EXPECT_EQ(fi_enable(ep), 0);
    return opened;
  }

  void connect(packet_way way) {
    ours_.magic = wire::magic;
    ours_.version = wire::version;
    ours_.connection = number_;
    ours_.eager_limit = 8192;
    ours_.instance = (static_cast<std::uint64_t>(::getpid()) << 20) + number_;
    ours_.data_window = 64;
    ours_.control_window = 64;
    sockaddr_in name{};
    std::memcpy(&name, info_->src_addr, sizeof name);
    name.sin_port = htons(static_cast<in_port_t>(6000 + number_));
    set_address(ours_, net_address(&name, sizeof name));
    if (way != packet_way::core) {
      memory_comes_to_ = std::move(*ipc::fd_listener::open(ours_.instance));
      ours_.host = ipc::host_identity();
    }
    EXPECT_EQ(fi_connect(ep_.get(), v_.ep->name().raw(), &ours_, sizeof ours_), 0);
    for (int i = 0; i < 20 && theirs_.magic == 0; ++i) settle();
    EXPECT_EQ(theirs_.magic, wire::magic) << "the endpoint has not answered";
    if (way == packet_way::ring_later) return;
    if (memory_comes_to_ && way != packet_way::ring_refused) attach(way);
    memory_comes_to_.reset();
  }

  void attach(packet_way way) {
    auto came = memory_comes_to_->take({.to_instance = ours_.instance,
                                        .from_instance = theirs_.instance,
                                        .to_connection = ours_.connection,
                                        .from_connection = theirs_.connection});
    ASSERT_TRUE(came);
    auto segment = ipc::segment::take(came->memory.get(), ipc::host_kernel::real());
    ASSERT_TRUE(segment);
    auto taken = ipc::shm_channel::take(
        std::move(*came), {.largest_packet = 8192, .sleeps = way == packet_way::ring_asleep});
    ASSERT_TRUE(taken);
    channel_ = std::move(*taken);
    if (way != packet_way::ring_alone) return;
    // The endpoint finds another process than the one that wrote this.
    ++segment->peer_info_of(ipc::end::attacher).probe_cookie;
    channel_->disable_cma(-EPERM);
  }

  void look() {
    std::uint32_t what = 0;
    alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 256];
    const ssize_t got = fi_eq_read(events_.get(), &what, space, sizeof space, 0);
    const auto& event = *reinterpret_cast<const fi_eq_cm_entry*>(space);
    const bool has_hello = got >= static_cast<ssize_t>(sizeof event + sizeof theirs_);
    if (got > 0 && what == FI_SHUTDOWN) shut_.push_back(event.fid);
    if (got > 0 && what == FI_CONNECTED) accepted_.push_back(event.fid);
    if (got == -FI_EAVAIL) read_refusal();
    if (has_hello && what == FI_CONNREQ) {
      take(event);
    } else if (has_hello && event.fid == &ep_->fid) {
      std::memcpy(&theirs_, event.data, sizeof theirs_);
    }
    fi_cq_msg_entry entry{};
    while (fi_cq_read(queue_.get(), &entry, 1) == 1) {
      if (!(entry.flags & FI_RECV)) continue;
      const auto& room = *static_cast<std::vector<std::byte>*>(entry.op_context);
      keep(by_core_, std::span(room).first(entry.len));
    }
    read_ring();
  }
  void take(const fi_eq_cm_entry& request) {
    const core::unique_info info(request.info);
    taken_connection& made = taken_.emplace_back();
    std::memcpy(&made.asked, request.data, sizeof made.asked);
    made.ep = open_endpoint(*info);
    EXPECT_EQ(fi_accept(made.ep.get(), &ours_, sizeof ours_), 0);
  }
  void read_refusal() {
    fi_eq_err_entry error{};
    std::byte data[256];
    error.err_data = data;
    error.err_data_size = sizeof data;
    EXPECT_GT(fi_eq_readerr(events_.get(), &error, 0), 0);
    refusal_ = {};
    if (error.err_data_size >= sizeof refusal_)
      std::memcpy(&refusal_, error.err_data, sizeof refusal_);
  }
  void read_ring() {
    if (!channel_) return;
    for (auto packet = channel_->in().front(); !packet.empty(); packet = channel_->in().front()) {
      keep(by_ring_, packet);
      channel_->in().pop();
    }
  }

  void keep(packets& by, std::span<const std::byte> packet) {
    const auto& head = *reinterpret_cast<const wire::header*>(packet.data());
    data_credits_ += head.data_credits;
    control_credits_ += head.control_credits;
    by.emplace_back(packet.begin(), packet.end());
  }

  static wire::kind kind_of(const std::vector<std::byte>& packet) {
    return reinterpret_cast<const wire::header*>(packet.data())->what;
  }
  static std::optional<std::vector<std::byte>> take_whole(packets& from, wire::kind what) {
    for (auto it = from.begin(); it != from.end(); ++it) {
      if (kind_of(*it) != what) continue;
      std::vector<std::byte> packet = std::move(*it);
      from.erase(it);
      return packet;
    }
    return std::nullopt;
  }
  template <class Fields>
  static std::optional<Fields> take(packets& from, wire::kind what) {
    const auto packet = take_whole(from, what);
    if (!packet) return std::nullopt;
    Fields fields{};
    std::memcpy(&fields, packet->data(), std::min(packet->size(), sizeof fields));
    return fields;
  }

  endpoint_by_itself& v_;
  const unsigned number_;
  hello ours_{};
  hello theirs_{};
  packets said_;   // the core's until the endpoint closes
  packets rooms_;  // likewise
  packets by_core_;
  packets by_ring_;
  unsigned data_credits_ = 0;
  unsigned control_credits_ = 0;
  std::vector<const fid*> shut_;
  std::vector<const fid*> accepted_;
  hello refusal_{};
  core::unique_info info_;
  core::unique_fid<fid_fabric> fabric_;
  core::unique_fid<fid_domain> domain_;
  std::vector<core::unique_fid<fid_mr>> known_;
  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_pep> listener_;
  core::unique_fid<fid_cq> queue_;
  core::unique_fid<fid_ep> receives_;
  core::unique_fid<fid_ep> ep_;
  std::vector<taken_connection> taken_;  // their ends, which the queues outlive
  std::optional<ipc::fd_listener> memory_comes_to_;
  std::unique_ptr<ipc::shm_channel> channel_;
};

}  // namespace gaudi::proto::test
