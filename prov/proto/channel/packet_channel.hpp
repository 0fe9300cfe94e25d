// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "copy/dma_engine.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/shm_transport.hpp"
#include "proto/connection/connection_closer.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/path_counters.hpp"

namespace gaudi::proto {

/// The way of all packets to a peer: by the core, or through shared memory. Messages, which take
/// credits for data, leave in the order they were sent, also where one has to wait for its payload
/// to come from a device. Control packets, which no application asked for, have credits of their
/// own and are consumed as they arrive, so that they always get through, however many unexpected
/// messages a receiver keeps. Queues are those of connection; what waits is listed here.
///
/// Not thread safe: the caller holds the domain lock.
class packet_channel final : public header_sender {
 public:
  class observer {
   public:
    /// A message that a transfer waits with did not leave, as a device failed to load it.
    virtual void message_failed(std::uint32_t transfer, int error) = 0;

   protected:
    ~observer() = default;
  };

  packet_channel(connection_manager& connections, core_transport& core, shm_transport& shm,
                 device_copies& copies, path_counters& paths, observer& tell) noexcept
      : connections_(connections),
        core_(core),
        shm_(shm),
        copies_(copies),
        paths_(paths),
        observer_(tell) {}

  virtual ~packet_channel() = default;
  packet_channel(const packet_channel&) = delete;
  packet_channel& operator=(const packet_channel&) = delete;

  /// Room in the lists for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections);
  /// Ends what waits with the error: the connection has failed.
  void connection_down(connection& c, int error);

  // Messages. Each returns 0, -FI_EAGAIN (no room: try again), or an error.

  [[nodiscard]] buffer* acquire() noexcept { return core_.messages().acquire(); }
  /// For answers, which have a limit of their own: the credits of their requests.
  [[nodiscard]] buffer* acquire_beyond_limit() noexcept {
    return core_.messages().acquire_beyond_limit();
  }
  /// Waits for devices that use the buffer, and gives it back.
  void recycle(buffer& b);
  /// The same for one that was not used.
  void release(buffer& b) noexcept { core_.messages().release(b); }
  [[nodiscard]] bool has_buffers_out() const noexcept { return core_.messages().in_use() != 0; }

  /// Puts local memory into a message: at once from the host, by the copy engine from a device.
  int load_payload(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                   std::size_t length);
  /// Sends it behind all earlier ones; takes a credit for data.
  int submit(connection& c, buffer& b);
  /// Sends it at once, without a look at credits: they are the caller's.
  int post(connection& c, buffer& b);
  /// It has left, or failed.
  void sent(buffer& b, int error);
  /// Counts a payload that went within its message.
  void count_eager(const connection& c, std::size_t length) noexcept {
    ++paths_.eager_ops;
    paths_.eager_bytes += length;
    if (c.shm) ++paths_.shm_ops;
  }

  // Control packets. They leave now or when there is room; where memory is short the connection
  // ends.

  template <class Fields>
  void send_control(connection& c, wire::kind what, std::uint8_t flags, Fields& fields,
                    std::size_t length) {
    fields.head = {what, flags, 0, 0, c.terms.connection_id};
    queue_control(c, reinterpret_cast<const std::byte*>(&fields), length);
  }
  void send_fin(connection& c, std::uint64_t operation, int status, std::uint8_t flags = 0);
  /// Remote CQ data of a write, which is there: so many bytes from `address` on.
  void send_event(connection& c, std::uint64_t data, std::size_t length, std::uint64_t address);
  /// The answer to a request, which may have to be loaded. The credit of that goes back with the
  /// answer, so that a peer has no more requests here than its window, however slowly it takes what
  /// it asked for: answers need no other limit.
  void queue_answer(connection& c, buffer& b);
  int send_header(connection& c, wire::kind what) override;

  // Credits of the peers.

  /// A message does not occupy anything here any more. Of one that is arriving: whether credits are
  /// due is looked at at its end.
  void consume(connection& c) noexcept {
    if (c.state == connection_state::failed) return;
    connections_.credits().consumed(c);
    if (connections_.credits().any_wanted()) [[unlikely]]
      recall_credits();
  }
  void consumed_data(connection& c);
  /// The peer asks for what is not used here. Where there is no room it asks again.
  void release_credits(connection& c);
  /// Once connection::returns_due(): credits usually travel with other messages, but a peer that
  /// only sends needs a message for them.
  void return_credits(connection& c);

  /// Sends what waits, as far as there is room.
  void flush();
  [[nodiscard]] bool has_waiting() const noexcept {
    return !control_waiting_.empty() || !ordered_waiting_.empty();
  }
  /// Whether something waits for room that nobody tells of.
  [[nodiscard]] bool waits_unnoticed() const noexcept;

 private:
  void queue_control(connection& c, const std::byte* bytes, std::size_t length);
  bool try_control(connection& c, const std::byte* bytes, std::size_t length);
  bool try_control_by_core(connection& c, const std::byte* bytes, std::size_t length);
  void let_control_wait(connection& c);
  void flush_control(connection& c);
  bool flush_answer(connection& c);
  void flush_ordered(connection& c);
  int send_uncounted(connection& c, const wire::header& packet, std::size_t length);
  void recall_credits();
  [[nodiscard]] bool must_flush(std::uint32_t id) const noexcept;

  connection_manager& connections_;
  core_transport& core_;
  shm_transport& shm_;
  device_copies& copies_;
  path_counters& paths_;
  observer& observer_;
  std::vector<std::uint32_t> control_waiting_;  // connections by id
  std::vector<std::uint32_t> ordered_waiting_;
};

}  // namespace gaudi::proto
