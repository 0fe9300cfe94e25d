// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <memory>

#include "proto/match/match_queue.hpp"
#include "proto/match/multi_receive.hpp"
#include "proto/operation/completion_spec.hpp"
#include "proto/operation/memory.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

struct buffer;
class connection;
class message_owner;
struct peer;

/// A receive to post.
struct recv_params {
  fi_addr_t from = FI_ADDR_UNSPEC;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  bool tagged = false;
  completion_spec completion;
};

/// A receive that waits for its message.
struct posted_receive : posted_hook {
  posted_receive() = default;
  posted_receive(const recv_params& what, std::uint32_t from, const local_memory& into) noexcept
      : posted_hook(what.tag, what.ignore, from),
        is_plain(into.single_host() && what.completion.is_plain()),
        completion(what.completion),
        memory(into) {}

  // One host buffer, and one entry in a queue: its message is copied and told of, and that is all.
  bool is_plain = false;

  completion_spec completion;
  local_memory memory;            // what is left of it, with `many`
  multi_receive* many = nullptr;  // FI_MULTI_RECV: stays posted for the next message
};

/// What the first packet of a message says.
struct message_info {
  peer* from = nullptr;
  std::uint8_t flags = 0;  // wire::header_flags
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t operation = 0;  // the sender's, with wire::want_fin or a rendezvous
  std::size_t length = 0;       // of the whole message
  bool rendezvous = false;
  const wire::rts_fields* rts = nullptr;  // with rendezvous; lives as long as the message
};

/// What its completion says where nothing goes wrong.
[[nodiscard]] cq_entry describe(const message_info& m) noexcept;

/// A message that came before its receive was posted.
struct unexpected : arrived_hook {
  message_info info;
  message_owner* owner = nullptr;  // it came to
  // Null: that connection is gone; its eager payload is still good.
  proto::connection* connection = nullptr;
  std::uint32_t on_id = 0;
  const std::byte* payload = nullptr;
  buffer* holder = nullptr;           // the receive buffer that holds the payload, or
  std::unique_ptr<std::byte[]> copy;  // a copy of it; a short one is inside
  // A short payload, so that it is found where the message is, or the rendezvous.
  union {
    wire::rts_fields rts;
    std::byte inside[sizeof(wire::rts_fields)];
  };
  unexpected() noexcept {}
};

}  // namespace gaudi::proto
