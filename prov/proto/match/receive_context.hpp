// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/object_pool.hpp"
#include "proto/match/match_queue.hpp"
#include "proto/match/multi_receive.hpp"
#include "proto/match/receive.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

class message_delivery;

/// Whose messages a receive_context takes, and who brings them to the receives that it finds.
class message_owner {
 public:
  /// What a receive with this source matches by. -FI_EINVAL: there is nothing at the address.
  [[nodiscard]] virtual base::result<std::uint32_t> source_of(const recv_params& params) const = 0;
  /// The completion of a receive that is shared, as this one reports it.
  [[nodiscard]] virtual completion_spec reported_here(
      completion_spec completion) const noexcept = 0;
  /// A message of its, which has left its queue, goes to this memory.
  virtual void deliver_unexpected(unexpected& m, const completion_spec& completion,
                                  const local_memory& memory) = 0;
  /// Nobody wants it: its sender must not wait for it.
  virtual void discard_message(unexpected& m) = 0;

 protected:
  ~message_owner() = default;
};

/// What receives are posted to and where messages wait that came before theirs. An endpoint has one
/// of its own, or several share one (fi_srx_context(3)): then a receive takes the message of
/// whichever endpoint it comes to, and is reported where that endpoint reports.
///
/// Not thread safe: the caller holds the domain lock.
class receive_context {
 public:
  /// FI_OPT_MIN_MULTI_RECV in bytes until the application sets it: as other providers have it, so
  /// that buffers that were made for them are used up here, too.
  static constexpr std::size_t default_min_multi_recv(std::size_t eager_size) noexcept {
    constexpr std::size_t most = 16384;
    return eager_size < most ? eager_size : most;
  }
  explicit receive_context(std::size_t min_multi_recv) noexcept : min_multi_recv_(min_multi_recv) {}
  ~receive_context();
  receive_context(const receive_context&) = delete;
  receive_context& operator=(const receive_context&) = delete;

  // As those of the endpoint. -FI_EINVAL: the address vector has nothing at the source's address.
  int receive(const local_memory& memory, const recv_params& params);
  int receive_many(const local_memory& memory, const recv_params& params);
  int peek(const recv_params& params, bool claim, bool discard);
  int receive_claimed(const local_memory& memory, const recv_params& params, bool discard);
  int cancel(void* context);
  /// Ends receives into memory of devices that are lost, with local_memory::loss(). (One of many
  /// messages ends when a message comes.)
  void fail_lost();

  /// Receives that no message has matched, and messages that no receive has.
  [[nodiscard]] std::size_t posted() const noexcept { return receive_pool_.live(); }
  [[nodiscard]] std::size_t unexpected_messages() const noexcept { return unexpected_pool_.live(); }

  [[nodiscard]] std::size_t min_multi_recv() const noexcept { return min_multi_recv_; }
  void set_min_multi_recv(std::size_t least) noexcept { min_multi_recv_ = least; }

  /// Endpoints whose messages come here; with more than their owner it is shared.
  /// `directed`: receives name the peer whose message they want (FI_DIRECTED_RECV).
  void add(message_owner& e, bool directed) {
    members_.push_back(&e);
    directed_ = directed_ || directed;
  }
  /// With all messages that came to it.
  void remove(const message_owner& e) noexcept;

  /// What is known by this name to match by; the same for all endpoints.
  std::uint32_t number_of(const net_address& name);
  /// Its next number will be another one. Where endpoints share the context one of them may still
  /// have a use for it, and it stays.
  void forget_number_of(const net_address& name) noexcept;

 private:
  // It puts messages in, and takes receives out for them.
  friend class message_delivery;

  match_queue& queue_for(bool tagged) noexcept { return tagged ? tagged_ : untagged_; }
  base::result<std::uint32_t> source_of(const recv_params& params) const;
  [[nodiscard]] completion_spec reported_somewhere(const completion_spec& completion) const;
  static bool reserve(posted_receive& r, std::size_t length) noexcept;
  static void cancel_many(posted_receive& r, const completion_spec& completion);

  template <class Visit>
  void for_each_arrived(Visit&& visit) {
    for (match_queue* queue : {&tagged_, &untagged_}) {
      queue->for_each_arrived(
          [&](arrived_hook& hook) { visit(*queue, static_cast<unexpected&>(hook)); });
    }
  }

  std::vector<message_owner*> members_;
  bool directed_ = false;
  base::object_pool<posted_receive> receive_pool_;
  multi_receive::pool multi_receive_pool_;
  std::size_t min_multi_recv_;
  base::object_pool<unexpected> unexpected_pool_;
  match_queue untagged_;
  match_queue tagged_;
  std::unordered_map<void*, unexpected*> claimed_;  // by the context of the FI_CLAIM
  std::unordered_map<net_address, std::uint32_t> numbers_;
  std::uint32_t next_number_ = 0;
};

}  // namespace gaudi::proto
