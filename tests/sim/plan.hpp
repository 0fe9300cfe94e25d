// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/params.hpp"
#include "sim/core/conditions.hpp"

namespace gaudi::sim {

/// One thing that an application does.
struct action {
  enum class kind {
    send,
    receive,
    receive_many,
    peek,
    write,
    read,
    atomic,
    cancel,  // the oldest receive that is still posted
  };
  kind what = kind::send;
  unsigned peer = 0;
  bool any_peer = false;  // receive, peek
  bool tagged = true;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  std::size_t length = 0;
  std::size_t offset = 0;  // write, read: in the peer's region
  unsigned bit = 0;        // atomic
  bool has_data = false;
  bool inject = false;
  bool delivery = false;
  bool transmit = false;
  bool fetch = false;      // atomic
  bool on_device = false;  // its memory is of the node's device
  bool claim = false;      // peek
  bool discard = false;    // peek, or what was claimed
};

std::string to_string(const action& a);

/// What happens to nodes and connections, before step `step` of the schedule.
struct fault {
  enum class kind {
    cut,
    silence,  // a connection carries nothing, and nobody is told
    kill,
    close,
    forget,  // the node removes the peer's address
    unplug,  // an interface of the node has no link
    reset,   // of the node's device
  };
  kind what = kind::cut;
  std::size_t step = 0;
  unsigned node = 0;
  unsigned peer = 0;     // cut, silence, forget
  std::size_t away = 0;  // kill, close, forget, unplug: steps until it starts again, or inserts it
  // cut, silence: which connection; unplug: which interface; reset: whether it is told (odd)
  std::uint64_t choice = 0;
};

std::string to_string(const fault& f);

/// All of one schedule that does not depend on what the endpoints do. The same seed makes the same
/// plan; a part of it can be left out, to find out what a failure needs.
struct plan {
  std::uint64_t seed = 0;
  unsigned nodes = 2;
  conditions net{};
  std::size_t eager_size = 1024;
  std::size_t rx_buffers = 32;
  std::uint32_t refusals = 0;  // of a message for want of credits, before it waits
  std::size_t unexpected_limit = 64 * 1024;
  bool core_keys = true;
  base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic;
  std::size_t rails = 1;
  std::size_t rail_chunk = 0;
  std::size_t other_nics = 0;        // that they leave by, after the first
  std::size_t other_interfaces = 0;  // likewise, of the first NIC
  std::optional<unsigned> railless;  // the node that has none of these
  std::vector<bool> devices;         // which nodes have one; empty: none
  std::vector<bool> device_regions;  // which have their region there
  delay copies{};                    // of these
  bool nic_reaches_devices = false;  // or all of their memory is staged
  bool registers = false;            // the applications, their host memory
  bool comes_home = false;           // sessions, as soon as their first link is there again
  bool passes_dmabufs = false;       // of what its own NIC does not reach, to others on its machine
  std::vector<bool> sleepers;        // which nodes sleep while nothing comes; empty: none
  std::vector<unsigned> machines;    // which one each node is on; empty: none shares memory
  std::optional<unsigned> forger;    // the node whose packets are not those of an honest peer
  std::size_t connections = 0;       // that a node has at most, while some are idle; 0: any number
  nanoseconds max_step = 2'000;
  std::vector<unsigned> pace;  // of each node, in thousandths of all steps
  unsigned calls = 400;        // thousandths of a node's steps that start an operation
  std::vector<std::vector<action>> scripts;
  std::vector<fault> faults;
  std::uint64_t numbers = 0;  // the seed of everything that is decided on the way

  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] bool is_honest(unsigned node) const noexcept { return forger != node; }
  /// Whether its own NIC reaches its device.
  [[nodiscard]] bool is_reached(unsigned node) const noexcept {
    return nic_reaches_devices && (!passes_dmabufs || node % 2 != 0);
  }
  /// Whether the node at times has no address of the peer.
  [[nodiscard]] bool forgets(unsigned node, unsigned peer) const noexcept;
};

/// Region of each node: cells for atomics, then what others write, then what they read.
inline constexpr std::size_t cell_bytes = 64;
inline constexpr std::size_t written_bytes = std::size_t{24} * 1024;
inline constexpr std::size_t read_bytes = std::size_t{16} * 1024;
inline constexpr std::size_t region_bytes = cell_bytes + written_bytes + read_bytes;
/// Receives of this many bytes take any message.
inline constexpr std::size_t max_message = std::size_t{24} * 1024;

/// `forged`: of several nodes one is a forger, which it is in one of ten plans otherwise.
plan make_plan(std::uint64_t seed, bool forged = false);

}  // namespace gaudi::sim
