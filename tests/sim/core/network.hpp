// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/random_source.hpp"
#include "core/fid.hpp"
#include "sim/core/conditions.hpp"
#include "sim/core/packet_forger.hpp"
#include "sim/rng.hpp"
#include "sim/trace.hpp"

namespace gaudi::sim {

struct core_listener;
struct core_completions;
struct core_events;
struct wire_connection;
class network;

/// Of an interface of a host; the first is that of its name.
sockaddr_in address_of(unsigned number, unsigned interface, std::uint16_t port) noexcept;
unsigned interface_of(const void* address) noexcept;

/// One process of a simulated machine: what its fids belong to. It ends by being killed, or when
/// all its fids are closed. As a clock it goes on while it is read, so that an endpoint that waits
/// for the network in a loop sees the network move.
class host final : public base::clock::source, public base::random_source::source {
 public:
  host(network& net, unsigned number, std::uint16_t port) noexcept
      : net_(net), number_(number), port_(port) {}

  [[nodiscard]] network& net() const noexcept { return net_; }
  [[nodiscard]] unsigned number() const noexcept { return number_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] bool is_alive() const noexcept { return alive_; }
  [[nodiscard]] std::size_t open_fids() const noexcept { return open_fids_; }

  void opened() noexcept { ++open_fids_; }
  void closed() noexcept { --open_fids_; }
  /// Nothing leaves or arrives from here on, and peers hear of that one after the other.
  void kill();
  /// A look at the core takes its time, in which the network goes on.
  void look();
  [[nodiscard]] bool is_looking() const noexcept { return looking_; }
  /// Whether one that sleeps on all its queues would wake.
  [[nodiscard]] bool is_readable() const noexcept { return !readable().empty(); }
  /// The descriptors of these queues, of which none is a real one.
  [[nodiscard]] std::vector<int> readable() const;
  [[nodiscard]] int new_descriptor() noexcept { return ++last_descriptor_; }
  [[nodiscard]] std::vector<core_completions*>& completions() noexcept { return completions_; }
  [[nodiscard]] std::vector<core_events*>& events() noexcept { return events_; }
  /// Packets from that end wait for the next look.
  void owe(std::shared_ptr<wire_connection> wire, int sender) {
    owed_.emplace_back(std::move(wire), sender);
  }
  /// Each call of an endpoint starts here.
  void begin_call() noexcept { reads_ = 0; }

  base::clock::time_point now() noexcept override;
  std::uint64_t next() noexcept override;

 private:
  friend class network;

  network& net_;
  unsigned number_;
  std::uint16_t port_;
  bool alive_ = true;
  std::size_t open_fids_ = 0;
  unsigned reads_ = 0;
  bool looking_ = false;
  std::vector<std::pair<std::shared_ptr<wire_connection>, int>> owed_;
  nanoseconds after_death_ = 0;
  std::vector<core_completions*> completions_;
  std::vector<core_events*> events_;
  int last_descriptor_ = 1'000'000;
};

/// Virtual time, what is due in it, and who can be reached. All of it runs in one thread, in the
/// order that the seed gives.
class network {
 public:
  network(const conditions& how, rng numbers, trace* record) noexcept
      : how_(how), numbers_(numbers), record_(record) {}
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  [[nodiscard]] const conditions& how() const noexcept { return how_; }
  /// From here on nothing is refused and nothing comes late.
  void calm() noexcept;
  /// From here on there is no room for any operation.
  void refuse_posts() noexcept { how_.refused_posts = 1000; }
  /// Whether there are endpoints to be had, of any host.
  void refuse_endpoints(bool are_refused) noexcept { refuses_endpoints_ = are_refused; }
  [[nodiscard]] bool refuses_endpoints() const noexcept { return refuses_endpoints_; }
  [[nodiscard]] nanoseconds now() const noexcept { return now_; }
  [[nodiscard]] rng& numbers() noexcept { return numbers_; }
  nanoseconds some(const delay& d) noexcept { return numbers_.between(d.least, d.most); }

  void at(nanoseconds when, std::function<void()> what);
  void after(const delay& d, std::function<void()> what) { at(now_ + some(d), std::move(what)); }
  /// Lets time pass, and does what is due meanwhile.
  void advance(nanoseconds by);
  [[nodiscard]] bool is_quiet() const noexcept { return due_.empty(); }
  [[nodiscard]] nanoseconds next_due() const noexcept { return due_.top().when; }

  /// A new process; an earlier one with that number is gone.
  host& add_host(unsigned number, std::uint16_t port);
  /// As core::inner_domain::open_over takes them.
  core::unique_info info_for(const host& h) const;
  core::unique_fid<fid_fabric> fabric_for(host& h) const;

  /// Cuts one of the connections between two hosts, picked by `which`. False: there is none.
  bool cut_connection(unsigned a, unsigned b, std::uint64_t which);
  /// The same, but that nothing tells its ends before one of them closes.
  bool silence_connection(unsigned a, unsigned b, std::uint64_t which);
  /// Pulls out the link of an interface: what goes over it ends, and requests and answers wait for
  /// it as the kernel asks again.
  void unplug(unsigned host, unsigned interface);
  void plug_in(unsigned host, unsigned interface) { unplugged_.erase({host, interface}); }
  [[nodiscard]] bool is_plugged_in(unsigned host, unsigned interface) const noexcept {
    return !unplugged_.contains({host, interface});
  }
  /// Whether a connection between them has ended before its time, so that operations may fail.
  [[nodiscard]] bool was_disturbed(unsigned a, unsigned b) const noexcept {
    return disturbed_[a][b];
  }
  void disturb(unsigned a, unsigned b) noexcept { disturbed_[a][b] = disturbed_[b][a] = true; }
  /// Whether what one sent to the other may never have come: a fault, or the other one has closed.
  [[nodiscard]] bool was_lost(unsigned from, unsigned to) const noexcept { return lost_[from][to]; }
  void lose(unsigned from, unsigned to) noexcept { lost_[from][to] = true; }

  /// Whether something is for ever on its way, and nobody has been told.
  [[nodiscard]] bool holds_anything_back() const noexcept;

  /// From here on what this host sends is not always what its endpoint has sent.
  void distrust(unsigned host) noexcept { distrusted_ = host; }
  [[nodiscard]] bool has_forger() const noexcept { return distrusted_ != max_hosts; }
  /// Whether it is this one.
  [[nodiscard]] bool is_forger(const host& h) const noexcept { return distrusted_ == h.number(); }
  /// And the network is not calm() yet.
  [[nodiscard]] bool forges(const host& h) const noexcept {
    return (how_.forged != 0 || how_.composed != 0) && is_forger(h);
  }
  /// What arrives of a packet where there is `room` for it. False: nothing does.
  bool alter(const host& sender, std::vector<std::byte>& packet, std::size_t room);
  /// The same of what is said in a request or an answer.
  void alter_hello(const host& sender, std::vector<std::byte>& said);

  /// What a host has left open; empty: nothing.
  [[nodiscard]] std::string open_fids() const;

  /// A write has been carried out: no other one that was posted before it may follow it late.
  void wrote(const host& at, const std::byte* target, std::size_t length, std::uint64_t number,
             bool late);

  /// Whether all that this process sent has arrived.
  [[nodiscard]] bool has_delivered(const host& of) const noexcept;

  /// What an endpoint did that no core provider allows. The first one counts.
  void complain(std::string what);
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

  [[nodiscard]] trace* record() const noexcept { return record_; }
  /// For what is only kept while a failure is explained.
  template <class Text>
  void note(unsigned from, unsigned to, Text&& text) {
    if (record_) record_->arrow(now_, from, to, text());
  }

  /// Device memory that a descriptor names, whoever has it by now.
  void exports(int fd, std::shared_ptr<std::vector<std::byte>> bytes);
  [[nodiscard]] std::shared_ptr<std::vector<std::byte>> exported(int fd) const;

  /// A device has been reset: what NICs read of this memory is anything, what they write is lost.
  void lose_memory(std::shared_ptr<std::vector<std::byte>> of_device) {
    lost_memory_.push_back(std::move(of_device));
  }
  [[nodiscard]] bool is_lost_memory(const std::byte* place) const noexcept;

  // For the fids of the core.
  std::map<std::uint16_t, core_listener*>& listeners() noexcept { return listeners_; }
  std::unordered_map<std::uint64_t, core_completions*>& queues() noexcept { return queues_; }
  std::vector<std::shared_ptr<wire_connection>>& connections() noexcept { return connections_; }
  std::uint64_t next_number() noexcept { return ++last_number_; }
  std::uint16_t next_port() noexcept { return ++last_port_; }

  static constexpr unsigned max_hosts = 4;

 private:
  std::shared_ptr<wire_connection> pick(unsigned a, unsigned b, std::uint64_t which) const;

  struct event {
    nanoseconds when;
    std::uint64_t number;
    mutable std::function<void()> what;
    bool operator<(const event& other) const noexcept {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  conditions how_;
  bool refuses_endpoints_ = false;
  rng numbers_;
  trace* record_;
  nanoseconds now_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint16_t last_port_ = 20'000;
  std::priority_queue<event> due_;
  std::vector<std::unique_ptr<host>> hosts_;
  std::map<std::uint16_t, core_listener*> listeners_;
  std::unordered_map<std::uint64_t, core_completions*> queues_;
  std::vector<std::shared_ptr<wire_connection>> connections_;
  std::map<std::uint64_t, std::shared_ptr<std::vector<std::byte>>> exported_;  // by inode
  std::vector<std::shared_ptr<std::vector<std::byte>>> lost_memory_;
  struct landed {
    const std::byte* target;
    std::size_t length;
    std::uint64_t number;
  };
  std::vector<landed> landed_;                         // with conditions::late_data
  std::set<std::pair<unsigned, unsigned>> unplugged_;  // interfaces of hosts
  std::array<std::array<bool, max_hosts>, max_hosts> disturbed_{};
  std::array<std::array<bool, max_hosts>, max_hosts> lost_{};
  unsigned distrusted_ = max_hosts;  // none
  packet_forger forger_;
  std::string complaint_;
};

}  // namespace gaudi::sim
