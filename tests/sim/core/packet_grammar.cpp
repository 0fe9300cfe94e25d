// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/core/packet_grammar.hpp"

#include <algorithm>
#include <cstring>

namespace gaudi::sim {
namespace {

namespace wire = proto::wire;

/// The first ones are remembered, and found again in fields of the same meaning.
enum class field : std::uint8_t {
  ours,    // an operation of the packet's sender
  theirs,  // of its receiver
  range,   // address, key and length of memory
  length,
  word,        // tags, data, addresses without a key
  rail_place,  // wire::rail_place
  number,      // small: of a slot, a NIC, a segment
  status,
  ranges,  // a list of them with its length, at most max_segments
  slots,   // the same, at most max_slots
  keys,    // a list of words with its length
  places,  // a list of rail_place with its length
  payload,
};

struct layout {
  wire::kind what;
  std::array<field, 8> fields;  // behind the header
  std::size_t count;
};

template <class... Fields>
constexpr layout of(wire::kind what, Fields... fields) {
  return {what, {fields...}, sizeof...(fields)};
}

// An atomic has its count, type, operation and group where others have a length.
constexpr std::array layouts = {
    of(wire::kind::eager, field::word, field::word, field::ours, field::payload),
    of(wire::kind::rts, field::word, field::word, field::ours, field::ours, field::length,
       field::ranges),
    of(wire::kind::write, field::ours, field::range, field::word, field::payload),
    of(wire::kind::write_rts, field::ours, field::range, field::word, field::ours, field::length,
       field::ranges),
    of(wire::kind::read, field::ours, field::range, field::word),
    of(wire::kind::atomic, field::ours, field::range, field::payload),
    of(wire::kind::read_reply, field::theirs, field::status, field::number, field::payload),
    of(wire::kind::read_rts, field::theirs, field::status, field::number, field::ours,
       field::length, field::ranges),
    of(wire::kind::cts, field::theirs, field::ours, field::length, field::slots),
    of(wire::kind::chunk, field::theirs, field::length, field::number, field::number),
    of(wire::kind::slot_credit, field::theirs, field::length, field::number, field::number),
    of(wire::kind::fin, field::theirs, field::status, field::number),
    of(wire::kind::event, field::word, field::length, field::word),
    of(wire::kind::flush, field::ours, field::length, field::word),
    of(wire::kind::ask_dmabuf, field::theirs, field::ours, field::number, field::number),
    of(wire::kind::dmabuf, field::theirs, field::word, field::length, field::length, field::word,
       field::status, field::number),
    of(wire::kind::dmabuf_revoke, field::word),
    of(wire::kind::copy_assist, field::theirs, field::word, field::length, field::number,
       field::number, field::number, field::number),
    of(wire::kind::ask_rails, field::places),
    of(wire::kind::rail_names, field::places),
    of(wire::kind::rail_lost, field::number, field::number),
    of(wire::kind::rail_closed, field::number, field::number),
    of(wire::kind::ask_rail_keys, field::ours, field::theirs, field::range, field::number,
       field::number),
    of(wire::kind::rail_keys, field::theirs, field::number, field::keys),
    of(wire::kind::credit_release, field::number, field::number),
};

constexpr std::size_t size_of(field f) noexcept {
  switch (f) {
    case field::range:
      return sizeof(wire::segment);
    case field::rail_place:
      return sizeof(wire::rail_place);
    case field::number:
    case field::status:
      return sizeof(std::uint32_t);
    default:
      return sizeof(std::uint64_t);
  }
}

constexpr field as_the_other_says(field f) noexcept {
  if (f == field::ours) return field::theirs;
  return f == field::theirs ? field::ours : f;
}

constexpr std::size_t index_of(field f) noexcept {
  return static_cast<std::size_t>(f);
}

constexpr bool is_remembered(field f) noexcept {
  return f <= field::rail_place;
}

// Of a list: what it is of.
constexpr field part_of(field f) noexcept {
  if (f == field::places) return field::rail_place;
  return f == field::keys ? field::word : field::range;
}

constexpr std::size_t most_of(field f) noexcept {
  if (f == field::slots) return wire::max_slots;
  return f == field::places ? wire::max_rails : wire::max_segments;
}

// A count of 32 bits, and nothing or keys right behind it.
constexpr std::size_t head_of(field f) noexcept {
  return f == field::keys ? sizeof(std::uint32_t) : sizeof(std::uint64_t);
}

const layout* layout_of(wire::kind what) noexcept {
  const auto* const found = std::find_if(layouts.begin(), layouts.end(),
                                         [what](const layout& l) { return l.what == what; });
  return found == layouts.end() ? nullptr : found;
}

}  // namespace

void packet_grammar::learn(std::span<const std::byte> packet, bool is_by_composer) {
  wire::header head{};
  if (packet.size() < sizeof head) return;
  std::memcpy(&head, packet.data(), sizeof head);
  const layout* const l = layout_of(head.what);
  if (!l) return;
  flags_[static_cast<std::size_t>(head.what)] = head.flags;
  auto rest = packet.subspan(sizeof head);
  const auto note = [&](field f) {
    const std::size_t size = size_of(f);
    if (rest.size() < size) return false;
    if (is_remembered(f)) {
      auto& known = known_[index_of(is_by_composer ? f : as_the_other_says(f))];
      std::copy_n(rest.begin(), size, known.values[known.seen++ % max_kept].begin());
    }
    rest = rest.subspan(size);
    return true;
  };
  for (std::size_t i = 0; i < l->count; ++i) {
    const field f = l->fields[i];
    if (f == field::payload) return;
    if (f < field::ranges) {
      if (!note(f)) return;
      continue;
    }
    std::uint32_t count = 0;
    if (rest.size() < head_of(f)) return;
    std::memcpy(&count, rest.data(), sizeof count);
    rest = rest.subspan(head_of(f));
    for (std::size_t n = std::min<std::size_t>(count, most_of(f)); n > 0; --n)
      if (!note(part_of(f))) return;
  }
}

void packet_grammar::put(rng& numbers, std::size_t meaning, std::span<std::byte> at) const {
  const auto f = static_cast<field>(meaning);
  std::uint64_t value = numbers.below(numbers.chance(800) ? 4 : 20);
  if (f == field::status && numbers.chance(700)) value = 0;
  if (is_remembered(f) && numbers.chance(900)) {
    // The later ones rather than the earlier: most of what those were for has ended.
    const known_values& known = known_[meaning];
    const std::size_t ago = 1 + (numbers.chance(500) ? 0 : numbers.below(max_kept));
    std::copy_n(known.values[(known.seen - ago) % max_kept].begin(), at.size(), at.begin());
    // A part of the memory, or a little more than it.
    if (f != field::range || numbers.chance(700)) return;
    constexpr std::size_t last = offsetof(wire::segment, length);
    value = numbers.below(1 << 16);
    at = at.subspan(last);
  }
  std::memcpy(at.data(), &value, std::min(at.size(), sizeof value));
}

void packet_grammar::put_list(rng& numbers, std::size_t meaning, std::size_t most,
                              std::vector<std::byte>& packet) const {
  const auto f = static_cast<field>(meaning);
  const auto count = static_cast<std::uint32_t>(numbers.below(most + 1));
  const std::size_t head = packet.size();
  packet.resize(head + head_of(f));
  std::memcpy(packet.data() + head, &count, sizeof count);
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::size_t at = packet.size();
    packet.resize(at + size_of(part_of(f)));
    put(numbers, index_of(part_of(f)), std::span(packet).subspan(at));
  }
}

void packet_grammar::compose(rng& numbers, wire::kind what, std::vector<std::byte>& packet) const {
  constexpr std::uint64_t max_payload = 64;
  wire::header head{};
  packet.resize(sizeof head);
  std::memcpy(&head, packet.data(), sizeof head);
  head.what = what;
  if (numbers.chance(800)) head.flags = flags_[static_cast<std::size_t>(what)];
  std::memcpy(packet.data(), &head, sizeof head);
  const layout* const l = layout_of(what);
  for (std::size_t i = 0; l && i < l->count; ++i) {
    const field f = l->fields[i];
    if (f == field::payload) {
      packet.resize(packet.size() + numbers.below(max_payload));
    } else if (f >= field::ranges) {
      put_list(numbers, index_of(f), most_of(f), packet);
    } else {
      const std::size_t at = packet.size();
      packet.resize(at + size_of(f));
      put(numbers, index_of(f), std::span(packet).subspan(at));
    }
  }
}

}  // namespace gaudi::sim
