// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/core/network.hpp"

/// The fids of a core provider that lives in one thread, as libfabric's tables of operations have
/// them: what the rooms core and proto call of verbs and tcp, and nothing else.
namespace gaudi::sim {

struct core_domain;
struct core_endpoint;
struct operation;

struct core_fabric : fid_fabric {
  host* at;
};

struct core_memory : fid_mr {
  core_domain* domain;
  std::uint64_t address;
  std::size_t length;
  std::uint64_t access;
  std::byte* first;                 // where its bytes are in this process
  std::shared_ptr<void> on_device;  // keeps the device's memory; null: the host's

  [[nodiscard]] bool holds(std::uint64_t first, std::size_t count) const noexcept {
    return first >= address && count <= length && first - address <= length - count;
  }
};

/// What a NIC has acknowledged, and its host bridge has not put into memory yet.
struct held_writes {
  struct one {
    std::uint64_t number;
    std::byte* target;
    std::vector<std::byte> bytes;
    bool on_device;
  };
  host* at;
  std::deque<one> all;

  void place_next();
  void place_all() {
    while (!all.empty()) place_next();
  }
  /// Those before a message that the same NIC puts into the host's memory.
  void place_those_of_host();

 private:
  void place(const one& w);
};

struct core_domain : fid_domain {
  host* at;
  bool chooses_keys;
  std::map<std::uint64_t, core_memory*> keys;
  std::shared_ptr<held_writes> held;

  /// A peer's write, which is seen later where it is for a device, or where this is another NIC
  /// than the one of its packets: else it is in memory before what tells of it is read.
  void take_write(std::byte* target, const operation& op, bool late, bool on_device,
                  bool before_messages);
  /// Is seen later: after what was there before it, or before what this NIC reads next.
  void hold(std::uint64_t number, std::byte* target, std::vector<std::byte> bytes, bool on_device);

  /// Complains where the core is given memory that it was not told of; null then, or where it needs
  /// not be told.
  const core_memory* check_local(const void* bytes, std::size_t count, void* descriptor);
  /// None: a peer may not do that there.
  struct place {
    std::byte* bytes = nullptr;
    bool on_device = false;
  };
  place find_remote(std::uint64_t address, std::size_t count, std::uint64_t key,
                    std::uint64_t access);
};

struct core_completions : fid_cq {
  host* at;
  int descriptor;
  std::uint64_t number;
  std::size_t reads = 0;
  std::size_t entry_bytes;  // of its format
  std::size_t room;
  std::size_t under_way = 0;  // operations that will report here
  struct entry {
    fi_cq_msg_entry done;
    int error;
    int provider_error;
  };
  std::deque<entry> entries;
  // To sleep on, over RDMA: a look arms it for one completion, which makes it readable until the
  // next look, whoever takes what there is.
  bool is_armed = false;
  bool has_rung = false;

  void report(const entry& e) {
    entries.push_back(e);
    if (std::exchange(is_armed, false)) has_rung = true;
  }
};

struct core_events : fid_eq {
  host* at;
  int descriptor;
  std::size_t reads = 0;
  struct entry {
    std::uint32_t what;  // 0: an error
    fid_t about;
    fi_info* info;
    int error;
    std::vector<std::byte> said;
  };
  std::deque<entry> entries;
};

struct core_listener : fid_pep {
  host* at;
  std::uint16_t port;
  unsigned interface;
  core_events* events = nullptr;
  bool is_listening = false;
};

/// What a listener was asked and has not answered.
struct core_request : fid {
  std::shared_ptr<wire_connection> wire;
};

/// Buffers for messages that arrive.
struct receive_queue {
  struct posted {
    std::byte* bytes;
    std::size_t length;
    void* context;
    core_domain* of_device = nullptr;  // where it is a device's memory
  };
  std::deque<posted> buffers;
  struct stopped {
    std::shared_ptr<wire_connection> wire;
    int sender;
  };
  std::vector<stopped> waiting;  // messages that came before their buffer
};

/// Receives that several endpoints share.
struct core_receives : fid_ep {
  host* at;
  core_domain* domain;
  receive_queue queue;
};

/// One operation on its way from one end to the other.
/// What a NIC reads of a device that has been reset.
inline constexpr std::byte unreadable{0xee};

struct operation {
  enum class kind { send, write, read, close };
  kind what = kind::send;
  std::uint64_t number = 0;
  std::vector<std::byte> data;  // has left the sender's memory, or has been read at the peer
  std::array<iovec, 5> local{};
  std::array<bool, 5> on_device{};   // of these
  core_domain* of_device = nullptr;  // where one is, which reads and writes it
  std::size_t parts = 0;
  std::size_t length = 0;
  void* context = nullptr;
  std::uint64_t queue = 0;  // where it reports; 0: nowhere
  bool at_delivery = false;
  bool departed = false;
  bool arrived = false;
  bool ended = false;
  std::uint64_t address = 0;
  std::uint64_t key = 0;

  void gather();
  void scatter() const;
};

struct wire_end {
  core_endpoint* ep = nullptr;
  host* at = nullptr;
  bool is_up = false;        // may post
  bool was_told = false;     // that it is up
  bool has_heard = false;    // that it is over
  bool owes_answer = false;  // that it has sent into silence
  std::deque<std::shared_ptr<operation>> sent;
  std::vector<std::shared_ptr<operation>> reporting;
  nanoseconds last_departure = 0;
  nanoseconds last_arrival = 0;
  nanoseconds last_end = 0;
};

/// A connection of the core: `ends[0]` asked for it. Messages of one end keep their order; nothing
/// else is promised.
struct wire_connection : std::enable_shared_from_this<wire_connection> {
  explicit wire_connection(network& n) noexcept : net(n) {}

  network& net;
  std::array<wire_end, 2> ends;
  std::array<unsigned, 2> interfaces{};  // of the hosts at the ends
  bool is_rail = false;                  // as its hello says: carries no messages
  bool is_cut = false;
  bool is_silent = false;     // carries nothing, and neither end is told before one closes
  bool is_lost = false;       // by the network, and by neither end
  bool lets_late_in = false;  // of one that is cut: what was on its way arrives
  nanoseconds late_from = 0;  // then, if not later
  bool has_no_room_for_reads = false;
  unsigned refused_reads = 0;     // for want of it
  core_request* asked = nullptr;  // not answered yet

  int post(int end, std::shared_ptr<operation> op);
  void depart(int end, operation& op);
  /// Carries out what has arrived from `end` and has a place to go.
  void drain(int end);
  /// drain, where the process at the other end takes part in it.
  void arrive(int end);
  /// A fault, or an access that was refused: what is on its way is lost, and both ends hear of it.
  void cut(bool by_network = true);
  void hear_of_end(int end);
  void close_end(int end);
  /// The link of one of its ends was pulled out: it carries nothing from there on, and its ends
  /// hear of that late, as far as they do.
  void lose_link();
  [[nodiscard]] bool has_link() const noexcept;
  /// Whether what that end sends is never acknowledged, as its kernel knows.
  [[nodiscard]] bool is_unacknowledged(int end) const noexcept {
    return is_silent && !is_cut && (!ends[end].sent.empty() || ends[end].owes_answer);
  }
  [[nodiscard]] bool carries_rma() const noexcept;

 private:
  bool carry_out(int end, const std::shared_ptr<operation>& op);
  bool deliver(int end, const std::shared_ptr<operation>& op);
  void answer_read(int end, const std::shared_ptr<operation>& op);
  void refuse_access(int end, const std::shared_ptr<operation>& op);
  void end_later(int end, const std::shared_ptr<operation>& op);
  void finish(int end, const std::shared_ptr<operation>& op, int error, int provider_error = 0);
  void fail_reporting(int end, int error);
  void lose_closed(int end);
  [[nodiscard]] bool may_arrive(int end) const noexcept;
  void keep_what_has_left(int end);
  nanoseconds until_noticed();
  void write(int end, const std::shared_ptr<operation>& op, const core_domain::place& target);
  [[nodiscard]] bool brings_messages_to(int end, const core_domain& nic) const noexcept;
};

struct core_endpoint : fid_ep {
  host* at;
  core_domain* domain;
  core_events* events = nullptr;
  core_completions* transmits = nullptr;
  core_completions* arrivals = nullptr;
  core_receives* shared = nullptr;
  receive_queue own;  // where nothing is shared
  std::shared_ptr<wire_connection> wire;
  int end = 0;
  unsigned interface = 0;  // that it leaves by

  [[nodiscard]] receive_queue& receives() noexcept { return shared ? shared->queue : own; }
};

// connecting.cpp
int open_listener(fid_fabric* fabric, fi_info* info, fid_pep** out, void* context);
fi_ops_cm* endpoint_cm_ops() noexcept;
void refuse_request(core_request& asked, std::span<const std::byte> said);

// traffic.cpp
fi_ops_msg* endpoint_msg_ops() noexcept;
ssize_t post_to(receive_queue& queue, core_domain& domain, const receive_queue::posted& room,
                void* descriptor);
fi_ops_rma* endpoint_rma_ops() noexcept;

// endpoint.cpp
int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** out, void* context);
int open_receives(fid_domain* domain, fi_rx_attr* attr, fid_ep** out, void* context);

// queues.cpp
int open_completions(fid_domain* domain, fi_cq_attr* attr, fid_cq** out, void* context);
int open_events(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** out, void* context);
int try_wait(fid_fabric* fabric, fid** queues, int count);

template <class Derived, class Base>
Derived& down(Base* f) noexcept {
  return *static_cast<Derived*>(f);
}
/// libfabric's objects begin with their fid.
template <class Derived, class Base>
Derived& of_fid(fid* f) noexcept {
  return *static_cast<Derived*>(reinterpret_cast<Base*>(f));
}

}  // namespace gaudi::sim
