// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cancellation_deferred.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "proto/channel/wait_descriptors.hpp"
#include "proto/connection/connection.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/operation/rma_request.hpp"

namespace gaudi::proto {

/// What the core's answer to something posted on the connection means: 0, -FI_EAGAIN where a
/// session keeps it until there is another core connection, or the error.
int answer_of_core(const connection& c, ssize_t ret) noexcept;

/// What an endpoint gives to the core provider, and gets back from it: messages and RMA on its
/// connections, and their completions. Owns the core's completion queue, counts what has an entry
/// of it coming, and has the buffers of messages.
///
/// Not thread safe: the caller holds the domain lock.
class core_transport {
 public:
  /// `message_size`: bytes of the largest message, header included. `operations`: that the core may
  /// have at a time; 0: as many as its queue has room for.
  core_transport(core::inner_domain& core, std::size_t message_size,
                 std::size_t operations) noexcept;

  /// Opens the queue, with room for so many receives besides. Once, but for attempts that failed
  /// and were closed. Errors are the core's.
  base::result<void> open(std::size_t receives, bool waitable);
  /// Opens a queue of another domain besides, for connections over its NIC: what completes there
  /// comes back by read(), too. After open(), and for wire::max_rails of them at most. Errors are
  /// the core's. Throws std::bad_alloc.
  base::result<fid_cq*> open_also(const core::inner_domain& other);
  /// Adds the descriptors to sleep on, of the queue and of the connections' events, to wait_fds().
  /// Likewise `alarm`, where it is not -1.
  base::result<void> open_wait_fds(fid* events, int alarm);
  /// Closes the queues: what the core still has comes back no more.
  void close() noexcept;
  /// Gives the memory of messages back, which is a call of the core's.
  void free_buffers() noexcept { messages_.free_all(); }

  [[nodiscard]] fid_cq* queue() const noexcept { return queue_.get(); }
  [[nodiscard]] const wait_descriptors& wait_fds() const noexcept { return wait_fds_; }
  /// 0, or -FI_EAGAIN: there is something to progress. After open_wait_fds().
  int try_wait(fid* events) const noexcept;

  [[nodiscard]] core::inner_domain& core() const noexcept { return core_; }
  /// In bytes.
  struct sizes {
    std::size_t max_inject = 0;     // of the longest packet that inject() takes
    std::size_t max_inlined = 0;    // up to here the core reads what it sends with the CPU
    std::size_t max_operation = 0;  // of one operation of the core
  };
  [[nodiscard]] const sizes& limits() const noexcept { return limits_; }
  /// How often completions have been taken from a queue. Of what has come since it is this many,
  /// nothing was known before.
  [[nodiscard]] std::uint64_t looks() const noexcept { return looks_; }
  [[nodiscard]] buffer_pool& messages() noexcept { return messages_; }
  [[nodiscard]] const buffer_pool& messages() const noexcept { return messages_; }

  /// Whether the core may be given another operation.
  [[nodiscard]] bool has_room() const noexcept { return posted_ < max_posted_; }
  /// Operations that will come back, without receives.
  [[nodiscard]] std::size_t posted() const noexcept { return posted_; }

  // Each of the following completes the packet's header; credits are taken from the connection's
  // window only if it leaves. 0, -FI_EAGAIN: no room; others: the connection is about to end.

  /// A packet that is the caller's again on return, of at most max_inject bytes. The caller
  /// holds a base::cancellation_deferred.
  int inject(connection& c, std::byte* packet, std::size_t length) noexcept;
  /// The buffer is the core's until its operation completes.
  int send(connection& c, buffer& b);
  /// A packet that takes no credit, of which `packet` is the beginning. Where the core may not
  /// inline, a buffer carries it.
  int send_uncounted(connection& c, const wire::header& packet, std::size_t length);
  /// The same for one that is only a header; to a peer in shared memory, too.
  int send_header(connection& c, wire::kind what) {
    const auto flags = static_cast<std::uint8_t>(c.shm ? wire::via_core : 0);
    return send_uncounted(c, {what, flags, 0, 0, 0}, sizeof(wire::header));
  }

  // Of a session that is resumed (session_recovery), to its new core endpoint.

  /// Its first packet.
  int send_resume(connection& c);
  /// One that the last one may have lost, as it is.
  int send_again(connection& c, const sent_packets::packet& lost);

  /// `w` comes back when it has ended. 0, -FI_EAGAIN: no room; others are the core's.
  /// Inlined: what the caller of an operation's way to the core has in registers is not stored
  /// first.
  [[gnu::always_inline]] int post(connection& c, posted_op& w, const rma_request& operation) {
    return post_on<false>(c, c.ep.get(), c.at_core.posted, w, operation);
  }
  /// The same on a rail that is not the first, where it says to be in the peer's memory at its end:
  /// packets go another way.
  int post(connection& c, rail& on, posted_op& w, const rma_request& operation);

  /// A write of nothing, which comes back when the peer's NIC has acknowledged it, and all before
  /// it. 0, -FI_EAGAIN: no room; others are the core's.
  int post_probe(connection& c, posted_op& probe);

  /// Lists what will come back with a completion: done by send() and post(); by others for what
  /// they complete themselves.
  void list(connection& c, posted_op& w) noexcept { list(c, c.at_core.posted, w); }
  /// It has come back, not from a rail.
  void unlist(posted_op& w) noexcept {
    --posted_;
    if (!w.connection) return;
    ++w.connection->at_core.ended;
    w.connection->at_core.posted.erase(w.connection->at_core.posted.iterator_to(w));
    w.connection = nullptr;
  }
  /// From a rail that is not the first, and of a connection that is there.
  void unlist(rail& from, posted_op& w) noexcept {
    --posted_;
    from.posted.erase(from.posted.iterator_to(w));
    w.connection = nullptr;
  }

  /// The connection's core endpoint is closed, so the application's memory is its own again, and no
  /// registration of ours on it stays; the operations themselves come back later, as errors that
  /// nobody waits for, or not at all where the queue closes first.
  static void connection_down(connection& c, int error);

  /// Calls completed(operation, length, error) for at most `most` completions, one look more or
  /// less; errors are positive FI_E* codes. How many there were: 0 says that the queue is empty,
  /// and fewer than `most` does not, as an error comes alone.
  template <class Completed>
  std::size_t read(std::size_t most, Completed&& completed) {
    std::size_t taken = read_from(queue_.get(), most, completed);
    for (const auto& other : others_) taken += read_from(other.get(), most, completed);
    return taken;
  }

 private:
  friend struct endpoint_audit;  // tests/sim

  /// What is slept on: the queues, and behind them what the core tells of connections.
  struct source_list {
    std::array<fid*, 2 + wire::max_rails> all{};
    std::size_t count = 0;
  };
  [[nodiscard]] source_list sources(fid* events) const noexcept;
  [[nodiscard]] fi_cq_attr queue_attributes() const noexcept;

  template <class Completed>
  std::size_t read_from(fid_cq* queue, std::size_t most, Completed&& completed) {
    std::array<fi_cq_msg_entry, 16> entries;
    std::size_t taken = 0;
    while (taken < most) {
      const ssize_t count = fi_cq_read(queue, entries.data(), entries.size());
      if (count == -FI_EAGAIN) break;
      ++looks_;
      if (count == -FI_EAVAIL) {
        const failed_op failed = read_error(queue);
        if (failed.operation) completed(*failed.operation, std::size_t{0}, failed.error);
        ++taken;
        continue;
      }
      if (count <= 0) break;
      taken += static_cast<std::size_t>(count);
      for (ssize_t i = 0; i < count; ++i) {
        if (entries[i].op_context)
          completed(posted_op::from_context(entries[i].op_context), entries[i].len, 0);
      }
      if (count < static_cast<ssize_t>(entries.size())) break;
    }
    return taken;
  }

  /// Whether it may be given one on the connection.
  [[nodiscard]] bool has_room(const connection& c) const noexcept {
    return has_room() && (c.usable() || c.session.is_replaying);
  }

  struct failed_op {
    posted_op* operation = nullptr;  // null: injected; the connection's own event tells of its end
    int error = 0;
  };
  failed_op read_error(fid_cq* queue) noexcept;
  void list(connection& c, posted_op_list& among, posted_op& w) noexcept {
    ++posted_;
    w.connection = &c;
    among.push_back(w);
  }
  int post_message(connection& c, buffer& b);
  template <bool by_rail>
  [[gnu::always_inline]] int post_on(connection& c, fid_ep* ep, posted_op_list& posted,
                                     posted_op& w, const rma_request& operation);
  static void abandon(posted_op_list& posted, int error);

  core::inner_domain& core_;
  const bool is_stream_;
  const std::size_t max_operations_;  // 0: as many as the queue has room for
  sizes limits_;
  core::unique_fid<fid_cq> queue_;
  std::vector<core::unique_fid<fid_cq>> others_;  // of other domains
  bool waitable_ = false;
  wait_descriptors wait_fds_;
  // A NIC's queue does not grow, and what it has no room for is lost.
  std::size_t max_posted_ = 0;
  std::size_t receives_ = 0;  // that each queue has room for besides
  std::size_t posted_ = 0;
  std::uint64_t looks_ = 0;
  buffer_pool messages_;
};

template <bool by_rail>
inline int core_transport::post_on(connection& c, fid_ep* ep, posted_op_list& posted, posted_op& w,
                                   const rma_request& operation) {
  if (!has_room(c)) [[unlikely]]
    return -FI_EAGAIN;
  iovec local{operation.bytes, operation.length};
  void* descriptor = operation.descriptor;
  fi_rma_iov remote{operation.remote.address, operation.length, operation.remote.key};
  // libfabric's verbs provider reads what `desc` points to (2.1, verbs_ep.c, vrb_send_iov).
  const fi_msg_rma message{.msg_iov = &local,
                           .desc = descriptor ? &descriptor : nullptr,
                           .iov_count = 1,
                           .addr = 0,
                           .rma_iov = &remote,
                           .rma_iov_count = 1,
                           .context = w.context(),
                           .data = 0};
  // A stream says of a write that it is the kernel's, and what that has is lost with its socket.
  const bool at_delivery = is_stream_ && (c.session.is_kept || by_rail);
  const std::uint64_t flags = operation.flags | (at_delivery ? FI_DELIVERY_COMPLETE : 0);
  const bool reads = operation.read;  // not to be asked again after the call that follows
  const base::cancellation_deferred while_the_core_posts;
  const ssize_t ret =
      reads ? fi_readmsg(ep, &message, FI_COMPLETION) : fi_writemsg(ep, &message, flags);
  if (ret) [[unlikely]]
    return by_rail ? static_cast<int>(ret) : answer_of_core(c, ret);
  w.number = c.session.sent;
  w.tries = 0;
  ++c.at_core.rma;
  if (!reads) c.at_core.wrote = true;
  list(c, posted, w);
  return 0;
}

}  // namespace gaudi::proto
