// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "mover.hpp"
#include "pace.hpp"
#include "packets.hpp"

namespace hlsim {

/// A chunk of a submission: a command buffer in device address space, for one queue.
struct command_buffer {
  uint32_t queue;
  uint64_t va;
  uint32_t size;                  ///< bytes
  std::vector<char> copied = {};  ///< what the driver has copied of it; empty: it is read at `va`
  bool endless = false;           ///< a command that never ends
};

/// What the runs of one engine share. Thread-safe.
struct run_tools {
  const model& device;
  const mover& memory;
  pace& links;
  std::array<std::atomic<double>, 3> copy_ns_per_byte{0.25, 0.25, 0.25};  ///< as measured lately
};

/// A command buffer being carried out, in steps that never sleep, so that any thread can take the
/// next one. One thread at a time.
class buffer_run {
 public:
  enum class state { waiting, done, failed };

  /// Reads the packets: here and not at submission, as the hardware fetches them when it gets
  /// there. Nothing happens before `ready_ns`.
  buffer_run(run_tools& tools, const command_buffer& buffer, uint64_t ready_ns);

  /// Goes as far as time allows. `waiting`: call again at wake_ns(), or sooner. `failed`: the
  /// buffer holds an address that is not mapped, or an unknown packet.
  state advance();
  [[nodiscard]] uint64_t wake_ns() const noexcept { return wake_ns_; }

 private:
  bool read_packets(uint64_t va, uint64_t size, bool nested);
  bool decode_packets(std::span<const char> rest, bool nested);
  state transfer(const packet& p);
  bool copy(const packet& p, uint64_t size);

  run_tools& tools_;
  const uint64_t ready_ns_;
  std::vector<packet> packets_;
  bool readable_;
  size_t next_ = 0;      ///< packet
  uint64_t done_ = 0;    ///< bytes of it that have been copied
  uint64_t slice_ = 0;   ///< bytes whose time is booked, 0 = none
  bool copied_ = false;  ///< the slice, ahead of its time
  uint64_t due_ns_ = 0;  ///< when the slice arrives
  uint64_t wake_ns_ = 0;
};

}  // namespace hlsim
