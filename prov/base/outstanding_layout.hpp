// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The page of outstanding operations: what a process lets others see of what it waits for, as
// fi_gaudi_counters(7) documents it. All numbers are the host's; times are CLOCK_MONOTONIC's, in
// nanoseconds, and 0 is never.
namespace gaudi::base::outstanding {

/// Name of the page's memfd; a process has the page open for as long as it lives.
inline constexpr char page_name[] = "gaudi-fi-outstanding";

/// A reader takes no page with another magic or version. What is new comes behind what there was,
/// within the sizes that the header gives; the version changes where that cannot be.
inline constexpr std::array<char, 8> magic{'G', 'A', 'U', 'D', 'I', 'O', 'U', 'T'};
inline constexpr std::uint32_t version = 1;

struct page_header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_size;  ///< bytes: the first record begins there
  std::uint64_t page_size;    ///< bytes of all
  std::uint32_t record_size;  ///< bytes of a record
  std::uint32_t record_count;
  std::int32_t pid;  ///< in the process's own PID namespace
  std::uint32_t reserved;
  std::uint64_t start_time;  ///< of the process, as field 22 of /proc/PID/stat has it
  std::array<char, 16> command;
  std::array<char, 16> release;  ///< of the provider
};

enum class record_kind : std::uint8_t {
  none = 0,        ///< the record is free
  operation = 1,   ///< one that takes more than one packet
  connection = 2,  ///< one that something waits for
  endpoint = 3,    ///< an enabled endpoint
  call = 4,        ///< a thread is inside a call that a driver answers
};

enum class operation_kind : std::uint8_t {
  other = 0,
  send = 1,
  receive = 2,
  write = 3,
  read = 4,
  atomic = 5,
  served = 6,  ///< a peer's RMA operation on memory of this process
};

enum class path_kind : std::uint8_t {
  undecided = 0,
  direct = 1,  ///< the core, or the kernel, between the memory of both ends
  staged = 2,  ///< through host buffers
  shared = 3,  ///< through slots in memory that both processes share
  engine = 4,  ///< within one device
  dmabuf = 5,  ///< by the NIC, from a peer's dma-buf
  packet = 6,  ///< the payload is in the packet
};

enum class wait_reason : std::uint8_t {
  nothing = 0,
  matching_receive = 1,  ///< the peer's answer to a message, which wants a receive there
  peer_answer = 2,       ///< the peer's answer to a request that wants nothing of its application
  peer_data = 3,         ///< data that the peer has still to bring
  peer_slots = 4,        ///< the peer has still to empty staging slots
  peer_end = 5,          ///< all is moved but for the peer's word
  network = 6,           ///< the core has operations under way
  device_copy = 7,       ///< a device's copy engine is at work
  staging = 8,           ///< staging memory of this process, which others use
  room = 9,              ///< room in the core, an engine or shared memory
  credit = 10,           ///< the peer has granted no right to send more
  handshake = 11,        ///< the connection is being made
  application = 12,      ///< this application has taken too little of what came
  memory = 13,           ///< memory for what came
  reconnection = 14,     ///< the connection was lost, and is being made again
};

/// Of a connection that something waits for.
enum class connection_phase : std::uint8_t {
  connecting = 0,
  accepting = 1,
  failed = 2,
  connected = 3,
  closing = 4,
  interrupted = 5,   ///< lost, and not asked for again yet
  reconnecting = 6,  ///< as connecting, after a loss
  reaccepting = 7,   ///< as accepting, after a loss
  resuming = 8,      ///< up again, and brings what was lost
};

/// What a driver was asked for.
enum class call_kind : std::uint8_t {
  other = 0,
  open_device = 1,      ///< a Gaudi
  export_memory = 2,    ///< device memory as a dma-buf
  register_memory = 3,  ///< the host's, with a NIC
  register_dmabuf = 4,  ///< device memory, with a NIC
};

/// Of a record.
enum record_flag : std::uint32_t {
  device_lost = 1,  ///< operation: the device of its memory
  asleep = 2,       ///< endpoint: nobody progresses it until something comes
};

/// Which fields mean what depends on the kind.
struct record {
  std::uint32_t sequence;  ///< odd while it is written; a reader looks before and after
  record_kind kind;
  std::uint8_t type;       ///< operation_kind, connection_phase or call_kind
  path_kind path;          ///< operation
  wait_reason wait;        ///< operation, connection
  std::uint32_t endpoint;  ///< place of the record of its endpoint, or its own
  std::uint32_t flags;     ///< record_flag
  std::uint32_t id;        ///< the last 32 bits of what static probes call it
  std::int32_t device;     ///< operation, call: the device of its memory, else -1
  std::uint64_t
      since;  ///< when it began to be outstanding, or to wait; no earlier; 0: it tells of nothing
  std::uint64_t seen;      ///< when the peer was last heard; endpoint: its last progress
  std::uint64_t instance;  ///< of the peer's endpoint, 0 where that is not known; or its own
  /// operation, call: bytes; endpoint: devices that the process has lost; connection: when the wait
  /// for it is given up, where that is limited
  std::uint64_t total;
  /// operation: bytes moved; endpoint: when the last one was seen; connection: what ended the one
  /// that is being made again (an errno)
  std::uint64_t done;
  std::array<std::uint64_t, 4> counts;  ///< see operation_count, connection_count, endpoint_count
  /// sockaddr_in or sockaddr_in6 of the peer, or its own; call: name of the NIC, ended by 0
  std::array<std::byte, 28> address;
  std::uint32_t reserved;
};

/// Places in record::counts.
enum operation_count : std::size_t {
  path_reason_code,  ///< base::path_reason; 0 at the end that does not choose
};
enum connection_count : std::size_t {
  data_credits,      ///< messages that the peer lets this end send
  control_credits,   ///< the same of control packets
  queued_packets,    ///< that have still to leave, and messages that wait for the connection
  withheld_credits,  ///< messages that came, and whose credits the peer has not back
};
enum endpoint_count : std::size_t {
  operations,           ///< that take more than one packet, also those without a record
  waiting_connections,  ///< also those without a record
  unexpected_messages,  ///< that came and match no receive
  posted_receives,      ///< that no message has matched
};

inline constexpr std::size_t header_size = 128;
/// How many records of each kind there are, in this order.
inline constexpr std::size_t max_operations = 256;
inline constexpr std::size_t max_connections = 192;
inline constexpr std::size_t max_endpoints = 64;
inline constexpr std::size_t max_calls = 64;
inline constexpr std::size_t record_count =
    max_operations + max_connections + max_endpoints + max_calls;
inline constexpr std::size_t page_size = header_size + record_count * sizeof(record);

static_assert(sizeof(page_header) == 80 && sizeof(page_header) <= header_size);
static_assert(sizeof(record) == 128);

}  // namespace gaudi::base::outstanding
