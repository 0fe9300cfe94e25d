// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/core/packet_forger.hpp"

#include <algorithm>
#include <cstring>

#include "proto/wire/wire.hpp"

namespace gaudi::sim {
namespace {

namespace wire = proto::wire;

constexpr std::array kinds = {
    wire::kind::eager,        wire::kind::rts,           wire::kind::write,
    wire::kind::write_rts,    wire::kind::read,          wire::kind::atomic,
    wire::kind::read_reply,   wire::kind::read_rts,      wire::kind::cts,
    wire::kind::chunk,        wire::kind::slot_credit,   wire::kind::fin,
    wire::kind::event,        wire::kind::flush,         wire::kind::ask_dmabuf,
    wire::kind::dmabuf,       wire::kind::dmabuf_revoke, wire::kind::copy_assist,
    wire::kind::ask_rails,    wire::kind::rail_names,    wire::kind::rail_lost,
    wire::kind::rail_closed,  wire::kind::ask_rail_keys, wire::kind::rail_keys,
    wire::kind::credit,       wire::kind::close_request, wire::kind::close_accept,
    wire::kind::close_refuse, wire::kind::credit_recall, wire::kind::credit_release,
    wire::kind::resume,       wire::kind::leave};
// Longer ones have no further fields, but payload.
constexpr std::size_t max_fields = sizeof(wire::cts_fields);

void flip_bit(rng& numbers, std::span<std::byte> bytes) {
  if (!bytes.empty()) bytes[numbers.below(bytes.size())] ^= std::byte{1} << numbers.below(8);
}

// A little more or less than what is right.
std::uint64_t changed(rng& numbers, std::uint64_t value) {
  switch (numbers.below(4)) {
    case 0:
      return value + numbers.between(1, 64);
    case 1:
      return value - numbers.between(1, 64);
    case 2:
      return value * 2;
    default:
      return value ^ std::uint64_t{1} << numbers.below(64);
  }
}

// Whether it may be one: they differ from run to run.
bool is_address(std::uint64_t value) noexcept {
  constexpr unsigned first_bit = 40;
  constexpr unsigned end_bit = 47;
  return value >> first_bit != 0 && value >> end_bit == 0;
}

void set_kind(rng& numbers, std::span<std::byte> packet) {
  packet[offsetof(wire::header, what)] = static_cast<std::byte>(kinds[numbers.below(kinds.size())]);
  if (numbers.chance(500))
    packet[offsetof(wire::header, flags)] = static_cast<std::byte>(numbers.next());
}

}  // namespace

void packet_forger::overhear(std::span<const std::byte> packet, bool is_own) {
  packets_[packets_seen_++ % max_kept].assign(packet.begin(), packet.end());
  grammar_.learn(packet, is_own);
  const std::size_t end = std::min(packet.size(), max_fields);
  for (std::size_t at = sizeof(wire::header); at + sizeof(std::uint64_t) <= end;
       at += sizeof(std::uint64_t)) {
    std::uint64_t value = 0;
    std::memcpy(&value, packet.data() + at, sizeof value);
    if (value != 0) values_[values_seen_++ % max_kept] = value;
  }
}

std::uint64_t packet_forger::some_value(rng& numbers) const {
  switch (numbers.below(8)) {
    case 0:
      return numbers.below(4);
    case 1:
      return ~std::uint64_t{0} - numbers.below(64);
    case 2:
      return std::uint64_t{1} << numbers.below(64);
    case 3:  // close to what is right
      return values_[numbers.below(max_kept)] + numbers.below(3) - 1;
    default:
      return values_[numbers.below(max_kept)];
  }
}

// One of those behind the connection's number, as wide as most of them are or half of it.
void packet_forger::change_field(rng& numbers, std::vector<std::byte>& packet) const {
  constexpr std::size_t first = offsetof(wire::header, number);
  const std::size_t end = std::min(packet.size(), max_fields);
  if (end < first + sizeof(std::uint64_t)) return;
  const std::size_t at = first + 4 * numbers.below((end - first) / 4 - 1);
  std::uint64_t value = 0;
  const bool is_half = numbers.chance(500);
  std::memcpy(&value, packet.data() + at, is_half ? 4 : sizeof value);
  value = numbers.chance(500) ? some_value(numbers) : changed(numbers, value);
  // A part of one is any number, and would not be the same in the next run.
  const bool is_whole = !is_half && at >= sizeof(wire::header) && at % sizeof value == 0;
  if (!is_whole && is_address(value)) value = numbers.next();
  std::memcpy(packet.data() + at, &value, is_half ? 4 : sizeof value);
}

bool packet_forger::forge(rng& numbers, std::vector<std::byte>& packet, std::size_t room) const {
  // Of the connection, with its number: what else is wrong with a packet is seen behind these.
  wire::header head{};
  std::memcpy(&head, packet.data(), std::min(packet.size(), sizeof head));
  switch (numbers.below(10)) {
    case 0:
      return false;
    case 1:
      flip_bit(numbers, packet);
      break;
    case 2:
      packet.resize(numbers.chance(500) ? numbers.below(packet.size() + 1)
                                        : packet.size() + numbers.below(max_fields));
      break;
    case 3:  // one of before
      packet = packets_[numbers.below(max_kept)];
      packet.resize(std::max(packet.size(), sizeof head));
      std::memcpy(packet.data() + offsetof(wire::header, connection), &head.connection,
                  numbers.chance(900) ? sizeof head - offsetof(wire::header, connection)
                                      : sizeof head.connection);
      break;
    case 4:
      if (!packet.empty()) set_kind(numbers, packet);
      break;
    case 5:
      packet.resize(numbers.between(sizeof head, sizeof head + max_fields));
      std::memcpy(packet.data(), &head, sizeof head);
      set_kind(numbers, packet);
      for (std::uint64_t n = numbers.between(1, 6); n > 0; --n) change_field(numbers, packet);
      break;
    default:
      for (std::uint64_t n = numbers.chance(700) ? 1 : 2; n > 0; --n) change_field(numbers, packet);
  }
  packet.resize(std::min(packet.size(), room));
  return true;
}

void packet_forger::compose(rng& numbers, std::size_t favourite, std::vector<std::byte>& packet,
                            std::size_t room) const {
  packet.resize(std::max(packet.size(), sizeof(wire::header)));
  const std::size_t which = numbers.chance(500) ? favourite : numbers.next();
  grammar_.compose(numbers, kinds[which % kinds.size()], packet);
  packet.resize(std::min(packet.size(), room));
}

void packet_forger::forge_hello(rng& numbers, std::vector<std::byte>& said) {
  std::array<std::byte, sizeof(wire::hello)> whole{};
  const std::size_t length = std::min(said.size(), whole.size());
  std::copy_n(said.begin(), length, whole.begin());
  if (numbers.chance(200)) return said.resize(numbers.below(said.size() + 1));
  for (std::uint64_t n = numbers.between(1, 3); n > 0; --n) flip_bit(numbers, said);
  const std::size_t first = offsetof(wire::hello, family);
  const std::size_t last = std::min(length, offsetof(wire::hello, host));
  if (first < last)
    std::copy(whole.begin() + first, whole.begin() + static_cast<std::ptrdiff_t>(last),
              said.begin() + first);
}

}  // namespace gaudi::sim
