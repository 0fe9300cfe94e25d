// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/operation/completion_queue.hpp"
#include "reg/region.hpp"
#include "sim/core/network.hpp"
#include "sim/plan.hpp"

namespace gaudi::sim {

/// One operation that an application started, or tried to.
struct record {
  enum class state {
    waiting,   // the call said -FI_EAGAIN so far
    started,   // its completion is due
    ended,     // with `error`
    refused,   // by its call, with `error`
    forgotten  // its endpoint was closed or killed
  };

  std::uint64_t number = 0;  // also its message's data, and the beginning of its bytes
  action asked;
  unsigned node = 0;
  unsigned life = 0;       // of the node
  unsigned peer_life = 0;  // send: of the peer when it was started
  state now = state::waiting;
  int error = 0;
  // The application's memory, and behind it what nobody may write to: here or of its device.
  std::vector<std::byte> bytes;
  reg::region* registered = nullptr;  // here, by the node; null: not
  std::shared_ptr<std::vector<std::byte>> device_bytes;
  std::span<std::byte> memory;
  std::span<std::byte> guard;
  std::size_t got = 0;            // bytes of a message, or of a read
  std::uint64_t posted = 0;       // among all calls that started something
  std::uint64_t ended = 0;        // among all that happened
  record* match = nullptr;        // the message of a receive; of a send its receive
  std::size_t place = 0;          // of a message in the buffer of its receive_many
  std::vector<record*> messages;  // of a receive_many
  bool is_taken = false;          // send: by a peek that claimed or discarded it
  bool is_cancelled = false;
  bool is_claim = false;   // receive, peek: of a message that was claimed
  bool has_event = false;  // write: its data was told to the target
  std::uint64_t sum = 0;   // receive: of its bytes when it ended

  static constexpr std::size_t guard_bytes = 256;

  [[nodiscard]] bool is_receive() const noexcept {
    return asked.what == action::kind::receive || asked.what == action::kind::receive_many;
  }
  [[nodiscard]] bool is_open() const noexcept { return now == state::started; }
  /// Gives it that much of what is here or of a device, which ends with a guard.
  void take(std::span<std::byte> whole) noexcept;
};

/// What was started and what has been told of it, and whether that can be right.
class ledger {
 public:
  ledger(network& net, const plan& p) : net_(net), plan_(p) {}
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  record& add(const action& a, unsigned node, unsigned life);
  void started(record& r) { r.now = record::state::started, r.posted = ++clock_; }
  void refused(record& r, int error);
  void cancelled(record& r);
  /// An entry of the node's completion queue.
  void completed(unsigned node, unsigned life, const proto::cq_entry& entry,
                 std::span<const std::byte> region);
  /// The node's device has been reset: what has to do with its memory may fail.
  void lost_device(unsigned node);
  /// The node's endpoint is gone: nothing more is told of its operations.
  void forget(unsigned node);

  /// Once everything has come to rest.
  void check_order();
  void check_memory();
  /// A message that must still come to this node; null: none.
  [[nodiscard]] const record* missing(unsigned node, unsigned life) const;
  [[nodiscard]] const record* unfinished() const;
  [[nodiscard]] std::deque<record>& all() noexcept { return all_; }

  /// Whether a NIC reads or writes its memory, of a device that has been reset.
  [[nodiscard]] bool may_be_anything(const record& r) const;

  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  void fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  static std::string name(const record& r);

 private:
  [[nodiscard]] bool may_fail(const record& r) const;
  [[nodiscard]] bool lost_at(unsigned node) const;
  [[nodiscard]] bool is_of_forger(const record& r, const proto::cq_entry& entry) const;
  [[nodiscard]] bool any_unreadable() const;
  [[nodiscard]] bool may_have_lost_memory(const record& r) const;
  record* message_of(const proto::cq_entry& entry, const record& r, const std::byte* bytes,
                     std::size_t length);
  void completed_receive(record& r, const proto::cq_entry& entry);
  void completed_peek(record& r, const proto::cq_entry& entry);
  void completed_event(unsigned node, unsigned life, const proto::cq_entry& entry,
                       std::span<const std::byte> region);
  void end(record& r, const proto::cq_entry& entry);
  void check_message(record& r, record& sent, const proto::cq_entry& entry, const std::byte* bytes,
                     std::size_t room);
  void check_result(const record& r);

  network& net_;
  const plan& plan_;
  std::deque<record> all_;
  std::uint64_t clock_ = 0;
  std::array<bool, network::max_hosts> lost_devices_{};
  std::string failure_;
};

/// The bytes that operation `number` brings, or those from the `first` one on.
void fill(std::span<std::byte> bytes, std::uint64_t number) noexcept;
[[nodiscard]] bool is_filled(std::span<const std::byte> bytes, std::uint64_t number,
                             std::size_t first = 0) noexcept;
/// Whether a receive or a peek wants this message.
[[nodiscard]] bool wants(const record& receive, const record& sent) noexcept;
/// What every region holds where it is only read.
inline constexpr std::uint64_t read_pattern = 0x5eed;

}  // namespace gaudi::sim
