// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/packet_dispatcher.hpp"

#include <rdma/fi_errno.h>

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/make_room.hpp"
#include "proto/channel/parse.hpp"

namespace gaudi::proto {
namespace {

// A word of memory that another process can write to: it is read once, whatever it says next.
inline std::uint64_t read_once(const std::byte* place) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(place), __ATOMIC_RELAXED);
}

/// What a packet in shared memory says of the message that it has in it. Returns where the payload
/// begins. 0: it is another packet, too short, or its sender waits for the end of it.
[[gnu::always_inline]] inline std::size_t read_message(std::span<const std::byte> packet,
                                                       wire::eager_fields& fields) noexcept {
  constexpr std::size_t shortest = wire::eager_size(0);
  if (packet.size() < shortest) return 0;
  const std::byte* const at = packet.data();
  const std::array<std::uint64_t, 2> head{read_once(at), read_once(at + 8)};
  static_assert(sizeof fields.head == sizeof head);
  fields.head = std::bit_cast<wire::header>(head);
  fields.tag = read_once(at + offsetof(wire::eager_fields, tag));
  if (fields.head.what != wire::kind::eager || (fields.head.flags & wire::want_fin)) return 0;
  if (!(fields.head.flags & wire::cq_data)) [[likely]]
    return shortest;
  const std::size_t start = wire::eager_size(fields.head.flags);
  if (packet.size() < start) return 0;
  fields.data = read_once(at + offsetof(wire::eager_fields, data));
  return start;
}

}  // namespace

// What it may have here without an answer is what it was promised room for.
void packet_dispatcher::overrun(connection& c) {
  GAUDI_WARN(EP_DATA, "%s sent more messages than it had credits for: the connection is closed\n",
             c.remote->name.to_string().c_str());
  parts_.connections.fail(c, FI_ECONNABORTED);
}

// `free`: nothing keeps the buffer.
inline void packet_dispatcher::done_with(connection& c, buffer& b, bool free) {
  if (!free || !parts_.buffers.give_back(b, c)) post_receives(c);
}

// Without memory for what the packet asks for, the peer cannot be served: it is told by the end of
// the connection, and so are the operations with it. What keeps the buffer does so last of all. But
// a message of which nothing was done yet waits in its buffer: its sender has been told that it is
// sent.
inline bool packet_dispatcher::dispatch_or_end(connection& c, buffer& b, std::size_t length) {
  try {
    const auto what = reinterpret_cast<const wire::header*>(b.bytes)->what;
    return what == wire::kind::eager ? parts_.delivery.handle_message(c, b, length)
                                     : dispatch_rest(c, b, length);
  } catch (const untouched&) {
    postpone(c, b, length);
    return false;
  } catch (const std::bad_alloc&) {
    parts_.connections.fail_soon(c, FI_ENOMEM);
    return true;
  }
}

// Counts a packet and what it says of credits. Whether its sender had one for it.
inline bool packet_dispatcher::admit(connection& c, const wire::header& head) noexcept {
  ++c.silence.packets;
  c.data.returned(head.data_credits);
  c.control.returned(head.control_credits);
  return !wire::takes_credit(head.what) ||
         (wire::is_control(head.what) ? c.control : c.data).arrived();
}

// The packet has a whole header.
inline void packet_dispatcher::take(connection& c, buffer& b, std::size_t length) {
  if (!c.postponed.empty()) [[unlikely]]
    return postpone(c, b, length);
  const auto head = *reinterpret_cast<const wire::header*>(b.bytes);
  if (!admit(c, head)) [[unlikely]] {
    overrun(c);
    return done_with(c, b, true);
  }
  done_with(c, b, dispatch_or_end(c, b, length));
  if (c.state == connection_state::failed) return;
  if (wire::is_control(head.what) && wire::takes_credit(head.what) &&
      head.what != wire::kind::event)
    c.control.consumed(wire::control_window);
  if (c.returns_due()) parts_.channel.return_credits(c);
}

void packet_dispatcher::packet_arrived(connection& c, buffer& b, std::size_t length) {
  take(c, b, length);
}

// A buffer of a stream was posted for one connection, and the number in the packet has to agree.
// Over RDMA the number alone tells the connection; nobody but its peer knows it.
void packet_dispatcher::receive_completed(buffer& b, std::size_t length, int error) {
  const auto& head = *reinterpret_cast<const wire::header*>(b.bytes);
  const bool is_whole = error == 0 && length >= sizeof head;
  const bool by_stream = b.connection_id != 0;
  connection* const c = parts_.connections.find(by_stream  ? b.connection_id
                                                : is_whole ? head.connection
                                                           : 0);
  parts_.buffers.completed(b, c);
  // Packets of a connection that failed meanwhile may still be on their way up.
  if (c && error == FI_ETRUNC) parts_.connections.malformed(*c, "packet (length)");
  if (!c || error) return parts_.buffers.give_back(b);
  if (!is_whole || head.connection != c->id) [[unlikely]] {
    parts_.connections.malformed(*c, "packet (of another connection)");
    return parts_.buffers.give_back(b);
  }
  const bool is_up = c->usable() || parts_.connections.confirm_connected(*c);
  if ((is_up || c->is_interrupted()) && (!c->session.is_kept || parts_.sessions.arrived(*c, head)))
    return take(*c, b, length);
  if (!parts_.buffers.give_back(b, *c)) post_receives(*c);
}

bool packet_dispatcher::take_in_place(connection& c, std::span<const std::byte> packet) {
  wire::eager_fields fields;
  const std::size_t start = read_message(packet, fields);
  if (start == 0) return false;
  const wire::header head = fields.head;
  if (head.connection != c.id) return false;
  if (!c.postponed.empty() || !c.data.may_arrive()) return false;
  if (!parts_.delivery.deliver_in_place(c, fields, packet.subspan(start))) return false;
  c.shm->in().pop();
  admit(c, head);
  parts_.channel.consume(c);
  if (c.returns_due()) parts_.channel.return_credits(c);
  return true;
}

bool packet_dispatcher::take_from_shm(connection& c, std::span<const std::byte> packet) {
  if (take_in_place(c, packet)) return true;
  buffer* b = parts_.buffers.take_local();
  if (!b) return false;
  const std::size_t length = packet.size();
  std::memcpy(b->bytes, packet.data(), length);
  c.shm->in().pop();
  if (reinterpret_cast<const wire::header*>(b->bytes)->connection != c.id) {
    parts_.connections.malformed(c, "packet (of another connection)");
    parts_.buffers.give_back(*b);
    return false;
  }
  packet_arrived(c, *b, length);
  return true;
}

// The packet waits for memory, and all that come behind it wait with it. The buffer is not posted
// again, so that the peer comes to a halt.
void packet_dispatcher::postpone(connection& c, buffer& b, std::size_t length) noexcept {
  b.length = length;
  c.postponed.push_back(b);
  any_postponed_ = true;
}

void packet_dispatcher::retry_postponed() {
  any_postponed_ = false;
  parts_.connections.for_each([this](connection& c) {
    posted_op_list waited;
    waited.swap(c.postponed);
    bool counted = true;
    while (!waited.empty()) {
      auto& b = static_cast<buffer&>(waited.front());
      waited.pop_front();
      const bool is_counted = std::exchange(counted, false);
      if (c.state == connection_state::failed) {
        parts_.buffers.give_back(b);
      } else if (!is_counted) {
        packet_arrived(c, b, b.length);
      } else {
        done_with(c, b, dispatch_or_end(c, b, b.length));
      }
    }
  });
}

void packet_dispatcher::connection_down(connection& c) {
  while (!c.postponed.empty()) {
    auto& b = static_cast<buffer&>(c.postponed.front());
    c.postponed.pop_front();
    parts_.buffers.give_back(b);
  }
}

bool packet_dispatcher::dispatch_rest(connection& c, buffer& b, std::size_t length) {
  using wire::kind;
  const kind what = reinterpret_cast<const wire::header*>(b.bytes)->what;
  switch (what) {
    case kind::rts:
      return parts_.delivery.handle_rts(c, b, length);
    case kind::write:
      return parts_.target.handle_write(c, b, length, false);
    case kind::write_rts:
      return parts_.target.handle_write(c, b, length, true);
    case kind::read:
      parts_.target.handle_read(c, b, length);
      return true;
    case kind::atomic:
      parts_.atomics.handle(c, b, length);
      return true;
    case kind::event:
      parts_.target.handle_event(c, b, length);
      return true;
    case kind::flush:
      parts_.target.handle_flush(c, b, length);
      return true;
    case kind::credit:
      return true;
    case kind::credit_recall:
      parts_.channel.release_credits(c);
      return true;
    case kind::leave:
      c.session.is_over = true;
      return true;
    case kind::credit_release:
      handle_credit_release(c, b, length);
      return true;
    case kind::close_request:
    case kind::close_accept:
    case kind::close_refuse:
      handle_closing(c, what);
      return true;
    default:
      return dispatch_transfer(c, b, length, what);
  }
}

bool packet_dispatcher::dispatch_transfer(connection& c, buffer& b, std::size_t length,
                                          wire::kind what) {
  using wire::kind;
  transfer_packets& to = parts_.transfers;
  switch (what) {
    case kind::read_reply:
      return to.handle_read_reply(c, b, length, false);
    case kind::read_rts:
      return to.handle_read_reply(c, b, length, true);
    case kind::cts:
      to.handle_cts(c, b, length);
      return true;
    case kind::chunk:
      to.handle_chunk(c, b, length);
      return true;
    case kind::slot_credit:
      to.handle_slot_credit(c, b, length);
      return true;
    case kind::fin:
      to.handle_fin(c, b, length);
      return true;
    case kind::ask_dmabuf:
      to.handle_dmabuf_request(c, b, length);
      return true;
    case kind::dmabuf:
      to.handle_dmabuf(c, b, length);
      return true;
    case kind::dmabuf_revoke:
      to.handle_dmabuf_revoke(c, b, length);
      return true;
    case kind::copy_assist:
      to.handle_copy_assist(c, b, length);
      return true;
    case kind::ask_rail_keys:
      to.handle_rail_question(c, b, length);
      return true;
    case kind::rail_keys:
      to.handle_rail_keys(c, b, length);
      return true;
    case kind::ask_rails:
    case kind::rail_names:
    case kind::rail_lost:
    case kind::rail_closed:
      parts_.rails.arrived(c, b, length, what);
      return true;
    default:
      parts_.connections.malformed(c, "packet (unknown kind)");
      return true;
  }
}

void packet_dispatcher::handle_credit_release(connection& c, buffer& b, std::size_t length) {
  wire::credit_fields fields;
  if (!parse(b, length, fields) || fields.count > c.data.may_be_released())
    return parts_.connections.malformed(c, "release of credits");
  parts_.connections.credits().released(c, fields.count);
}

void packet_dispatcher::handle_closing(connection& c, wire::kind what) {
  const auto before = c.state;
  parts_.closer.arrived(c, what);
  if (before == connection_state::closing && c.state == connection_state::connected)
    parts_.sender.connection_up(c);
}

void packet_dispatcher::post_receives(connection& c) {
  if (parts_.buffers.post_more(c) || c.receives.are_short) return;
  if (!base::make_room(receives_waiting_)) return parts_.connections.fail_soon(c, FI_ENOMEM);
  receives_waiting_.push_back(c.id);
  c.receives.are_short = true;
}

void packet_dispatcher::post_waiting_receives() {
  std::erase_if(receives_waiting_, [this](std::uint32_t id) {
    connection* const c = parts_.connections.find(id);
    if (c && !parts_.buffers.post_more(*c)) return false;
    if (c) c->receives.are_short = false;
    return true;
  });
}

}  // namespace gaudi::proto
