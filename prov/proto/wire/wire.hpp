// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// The bytes that two gaudi endpoints exchange. Little-endian, naturally aligned fields, no
/// implicit padding; bulk data moves by the core's RMA and has no header. Every message starts with
/// a wire::header; what follows is given by its kind. Any change of this file changes
/// wire::version.
namespace gaudi::proto::wire {

/// Checked when a connection is made: peers with different versions refuse each other.
inline constexpr std::uint16_t version = 17;
inline constexpr std::uint32_t magic = 0x46415547;  // "GUAF"

enum class kind : std::uint8_t {
  // Data class: takes a data credit, may wait in the receiver's unexpected queue.
  eager = 1,      // eager_fields, payload
  rts = 2,        // eager_fields, rts_fields
  write = 3,      // rma_fields, payload: software RMA write
  write_rts = 4,  // rma_fields, rts_fields
  read = 5,       // rma_fields: software RMA read request
  atomic = 6,     // atomic_fields, operands, values to compare with: answered by fin or read_reply
  // Control class: takes a control credit, is consumed as soon as it arrives.
  read_reply = 16,   // fin_fields, payload: answer to read
  read_rts = 17,     // fin_fields, rts_fields: answer to a read too long for one message
  cts = 18,          // cts_fields: where the owner of a staged source may write; also, further
                     // staging slots for it
  chunk = 19,        // chunk_fields: a staging slot was filled
  slot_credit = 20,  // chunk_fields: a staging slot may be filled again
  fin = 21,          // fin_fields: an operation of the receiver of this message ended. One byte of
                     // what it sent may follow, which says nothing (transfer_flush)
  event = 22,        // event_fields: remote CQ data of a direct RMA write
  flush = 23,        // event_fields: make a direct RMA write visible to the device, then say fin
  ask_dmabuf = 24,   // dmabuf_ask_fields: a sink on the same host wants the dma-buf of a source
  dmabuf = 25,       // dmabuf_fields: it was sent to the sink's ipc::fd_listener, or cannot be had
  dmabuf_revoke = 26,  // allocation_fields: one whose dma-buf the receiver of this message has
  copy_assist = 27,    // copy_assist_fields: a sink on this host copies, the source may copy along
  ask_rails = 28,      // rail_names_fields: where does the receiver of this message take rails, as
                       // the sender does there?
  rail_names = 29,     // rail_names_fields: there
  rail_lost = 30,      // rail_fields: the sender has closed its end of a rail; what it had not done
                       // is written again once the other end is closed, too
  rail_closed = 31,    // rail_fields: it is; or has ended by itself
  ask_rail_keys =
      32,          // rail_ask_fields: what the receiver's memory is called at a rail's end there
  rail_keys = 33,  // rail_keys_fields: that, or nothing
  // Neither: only the header, always accepted.
  credit = 48,
  close_request = 49,   // the sender needs the connection no more, and begins nothing on it
  close_accept = 50,    // nor does the receiver of the request: it may be closed
  close_refuse = 51,    // something of the receiver's is under way: it stays
  credit_recall = 52,   // others need the data credits that the receiver of this does not use
  credit_release = 53,  // credit_fields: the sender gives up so many of those that it has
  resume = 54,  // the first packet each way on a connection that carries a session on: says what
                // the sender has received. Has no number itself
  leave = 55,   // the sender closes: its end of the connection is none that is made again
};

inline constexpr bool takes_credit(kind k) noexcept {
  return k < kind::credit;
}

inline constexpr bool is_control(kind k) noexcept {
  return k >= kind::read_reply;
}

enum header_flags : std::uint8_t {
  tagged = 1 << 0,     // matched on the tagged queue
  cq_data = 1 << 1,    // data is valid
  want_fin = 1 << 2,   // the sender waits for a `fin` with its operation id
  needs_cts = 1 << 3,  // rts: the sink says with a cts where the source is to write
  direct = 1 << 4,     // cts: the segments are final memory, not staging slots
  via_core = 1 << 5,   // on the core connection although the peers share memory: behind RMA there
  shared = 1 << 6,     // cts: the segments' addresses are numbers of slots in shared memory
  alloc_ids = 1 << 7,  // rts: the segments' keys are the source's numbers of allocations, for a
                       // sink in the same process, or to ask for as dma-bufs
};

struct header {
  kind what;
  std::uint8_t flags;
  std::uint8_t data_credits;     // returned with this message
  std::uint8_t control_credits;  // returned with this message
  std::uint32_t connection;      // index at the receiver, from its hello
  // On the core connection of a session (hello_flags::keeps_session), else 0.
  std::uint32_t number = 0;    // of this packet, from 1 on in each direction, modulo 2^32
  std::uint32_t received = 0;  // of the last packet that the sender of this one has received
};
static_assert(sizeof(header) == 16);

struct eager_fields {
  header head;
  std::uint64_t tag;
  std::uint64_t data;       // only sent with cq_data or want_fin
  std::uint64_t operation;  // only sent with want_fin, and always in rts
};
static_assert(sizeof(eager_fields) == 40);

/// Bytes of eager_fields that travel for these flags: short messages are what latency is made of.
inline constexpr std::size_t eager_size(std::uint8_t flags) noexcept {
  if (flags & want_fin) return sizeof(eager_fields);
  return (flags & cq_data) ? offsetof(eager_fields, operation) : offsetof(eager_fields, data);
}

/// A range of memory registered with the core provider at the end that names it.
struct segment {
  std::uint64_t address;
  std::uint64_t key;
  std::uint64_t length;
};

inline constexpr std::size_t max_segments = 4;
inline constexpr std::size_t max_slots = 16;

struct rts_fields {
  std::uint64_t operation;  // at the owner of the source
  std::uint64_t length;     // whole message
  std::uint32_t segment_count;
  std::uint32_t reserved;
  segment segments[max_segments];  // segment_count of them travel; none with wire::staged
};

struct rma_fields {
  header head;
  std::uint64_t operation;  // at the initiator
  std::uint64_t address;    // at the target: virtual address or offset, as its mr_mode says
  std::uint64_t key;
  std::uint64_t length;
  std::uint64_t data;
};

struct atomic_fields {
  header head;
  std::uint64_t operation;  // at the initiator
  std::uint64_t address;    // at the target: virtual address or offset, as its mr_mode says
  std::uint64_t key;
  std::uint32_t count;  // elements
  std::uint8_t type;    // enum fi_datatype
  std::uint8_t op;      // enum fi_op
  std::uint8_t group;   // atomic_math::call
  std::uint8_t reserved;
};
static_assert(sizeof(atomic_fields) == 48);

struct fin_fields {
  header head;
  std::uint64_t operation;  // at the receiver of this message
  std::int32_t status;      // 0 or a positive FI_E* code
  std::uint32_t reserved;
};

struct cts_fields {
  header head;
  std::uint64_t source_operation;
  std::uint64_t target_operation;
  std::uint64_t length;  // bytes wanted: less than announced when the receive is shorter
  std::uint32_t segment_count;
  std::uint32_t reserved;
  segment segments[max_slots];  // segment_count of them travel
};

struct dmabuf_ask_fields {
  header head;
  std::uint64_t source_operation;  // with wire::passed in its rts
  std::uint64_t sink_operation;
  std::uint32_t segment;  // of the rts
  std::uint32_t reserved;
};
static_assert(sizeof(dmabuf_ask_fields) == 40);

struct dmabuf_fields {
  header head;
  std::uint64_t sink_operation;
  std::uint64_t allocation;
  std::uint64_t offset;   // of its first byte in the dma-buf
  std::uint64_t length;   // of it
  std::uint64_t address;  // the source's, of the dma-buf's first byte
  std::int32_t status;    // 0 or a positive FI_E* code: nothing was sent
  std::uint32_t reserved;
};
static_assert(sizeof(dmabuf_fields) == 64);

// A copy of all of a source in one piece of host memory, by both ends: ipc::cooperative_copy.
struct copy_assist_fields {
  header head;
  std::uint64_t source_operation;
  std::uint64_t address;  // in the sink's memory, where the first byte goes
  std::uint64_t length;
  std::uint32_t piece;   // bytes
  std::uint32_t words;   // which of the sink's copy_state
  std::uint32_t number;  // of the copy on them
  std::uint32_t reserved;
};

struct allocation_fields {
  header head;
  std::uint64_t allocation;
};

struct credit_fields {
  header head;
  std::uint32_t count;
  std::uint32_t reserved;
};
static_assert(sizeof(credit_fields) == 24);

/// RMA beside the connection goes over rails, of which each is made by the end that posts to it.
struct rail_fields {
  header head;
  std::uint32_t number;  // at the end that made it
  std::uint32_t reserved;
};

inline constexpr std::size_t max_rails = 8;

struct rail_name {
  std::uint16_t family;  // AF_INET or AF_INET6
  std::uint16_t port;    // network order
  std::uint8_t address[16];
};
static_assert(sizeof(rail_name) == 20);

/// Where rails end, and the core connections of a session that goes on elsewhere.
struct rail_place {
  rail_name name;
  std::uint32_t nic;            // at the sender, less than max_rails; 0: the one that keys are of
  std::uint64_t fence_address;  // 8 bytes there to read behind what is written; over a stream 0,
  std::uint64_t fence_key;      // as is this
};
static_assert(sizeof(rail_place) == 40);

struct rail_names_fields {
  header head;
  std::uint32_t count;
  std::uint32_t reserved;
  rail_place places[max_rails];  // count of them travel; the first is the sender's listener
};

/// A key is of one NIC. Who reaches another one asks for that one's.
struct rail_ask_fields {
  header head;
  std::uint64_t operation;  // at the sender
  std::uint64_t of;         // at the receiver: whose memory it is; 0: that of `key`
  std::uint64_t address;    // only without `of`, or of a slot that `of` has granted, as are the
  std::uint64_t key;        // next two
  std::uint64_t length;
  std::uint32_t nic;     // at the receiver
  std::uint32_t writes;  // 1: to write; 0: to read
};
static_assert(sizeof(rail_ask_fields) == 64);

struct rail_keys_fields {
  header head;
  std::uint64_t operation;           // at the receiver
  std::uint32_t nic;                 // at the sender
  std::uint32_t count;               // 0: the NIC does not reach the memory
  std::uint64_t keys[max_segments];  // count of them travel, of the segments in their order
};

struct chunk_fields {
  header head;
  std::uint64_t operation;  // at the receiver of this message
  std::uint64_t offset;     // in the message
  std::uint32_t length;
  std::uint32_t slot;
};

struct event_fields {
  header head;
  std::uint64_t data;  // flush: operation at the sender of this message
  std::uint64_t length;
  std::uint64_t address;  // the first byte written
};

/// The private data of connection requests and answers. The first six bytes never change meaning.
#pragma pack(push, 4)
struct hello {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t reason;       // of a reject
  std::uint8_t flags;        // hello_flags
  std::uint32_t connection;  // index at the sender of the hello, for wire::header
  std::uint32_t eager_limit;
  std::uint64_t instance;  // random per endpoint: tells a restarted peer at an old address
  std::uint16_t data_window;
  std::uint16_t control_window;
  std::uint16_t family;  // AF_INET or AF_INET6
  std::uint16_t port;    // network order: the sender's listener
  std::uint8_t address[16];
  std::uint32_t host;  // ipc::host_identity; 0: shares no memory with its peers
};
#pragma pack(pop)
// The RDMA CM carries 56 bytes in a request, and one of them is the verbs provider's own.
static_assert(sizeof(hello) == 52);

enum hello_flags : std::uint8_t {
  shares_memory = 1 << 0,  // an answer: a segment is on its way, the connection's packets go there
  takes_dmabufs = 1 << 1,  // of device memory of peers that it shares memory with
  keeps_session = 1 << 2,  // what is sent is kept until it was received: where both do, the session
                           // outlives the core connection
  resumes = 1 << 3,  // the core connection is a new one of the session between `connection` here
                     // and resumed(hello) at the receiver; `host` is its route and NIC
  is_rail = 1 << 4,  // of the connection between `connection` here and resumed(hello) at the
                     // receiver: `host` is its number
  moves_sessions = 1 << 5,  // over RDMA: where both do, a session may go on over any of their NICs
};

/// With hello_flags::resumes and ::is_rail: the receiver's own number of the connection, which has
/// its windows.
inline constexpr std::uint32_t resumed(const hello& h) noexcept {
  return h.data_window | std::uint32_t{h.control_window} << 16;
}
inline constexpr void set_resumed(hello& h, std::uint32_t connection) noexcept {
  h.data_window = static_cast<std::uint16_t>(connection);
  h.control_window = static_cast<std::uint16_t>(connection >> 16);
}
/// With hello_flags::resumes: between which of their addresses the core connection is, and over
/// which NIC of the sender's (rail_place::nic).
inline constexpr void set_way(hello& h, std::uint8_t route, std::size_t nic) noexcept {
  h.host = route | static_cast<std::uint32_t>(nic) << 8;
}
inline constexpr std::uint8_t route_of(const hello& h) noexcept {
  const std::uint32_t route = h.host & 0xff;
  return route < max_rails ? static_cast<std::uint8_t>(route) : 0;
}
inline constexpr std::uint8_t nic_of(const hello& h) noexcept {
  const std::uint32_t nic = h.host >> 8;
  return nic < max_rails ? static_cast<std::uint8_t>(nic) : 0;
}

/// Control messages that an endpoint takes from each peer at once.
inline constexpr std::uint16_t control_window = 8;

/// Every endpoint takes messages of this many bytes: all that are not bulk data, and what fi_inject
/// takes.
inline constexpr std::size_t min_message = 1024 + sizeof(rma_fields);
static_assert(min_message >= sizeof(cts_fields));

enum class reject_reason : std::uint8_t {
  none = 0,
  wrong_version = 1,  // wire::version differs
  simultaneous = 2,   // both connect at once and the other request goes on
  resources = 3,
  malformed = 4,
  no_session = 5,  // that which is to be resumed has ended here
};

}  // namespace gaudi::proto::wire
