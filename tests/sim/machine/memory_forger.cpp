// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/machine/memory_forger.hpp"

#include <cstdint>
#include <cstring>
#include <vector>

namespace gaudi::sim {
namespace {

// Of a thousand turns, those at which something else than a packet changes.
constexpr unsigned other_changes = 20;
// Of a thousand packets that change, those whose length may be anything.
constexpr unsigned damaged_records = 20;

// Records of a ring are whole words, in front of each its packet's length.
using length_word = std::uint64_t;
constexpr std::size_t filled_up(std::size_t length) noexcept {
  return (length + sizeof(length_word) - 1) & ~(sizeof(length_word) - 1);
}

void set_length(std::byte* packet, length_word length) {
  std::memcpy(packet - sizeof length, &length, sizeof length);
}

// Whether it says that a helper is at work on a copy. The copy's owner believes that until the
// helper has ended: one that was stopped may still write.
bool is_at_work(std::size_t place) noexcept {
  constexpr std::size_t first = offsetof(ipc::segment_head, cooperative);
  if (place < first || place >= sizeof(ipc::segment_head)) return false;
  const std::size_t within = (place - first) % sizeof(ipc::copy_state);
  constexpr std::size_t working = offsetof(ipc::copy_state, working);
  return within >= working && within < working + sizeof(std::uint32_t);
}

}  // namespace

memory_forger::memory_forger(void* at, std::size_t size) noexcept
    : at_(static_cast<std::byte*>(at)),
      size_(size),
      end_(head().magic == 0 ? ipc::end::creator : ipc::end::attacher) {}

void memory_forger::forge(const host& forger) {
  if (!forger.net().forges(forger)) return;
  if (!packets_) follow_ring();
  forge_packets(forger);
  if (forger.net().numbers().chance(other_changes)) change_anything(forger.net());
}

void memory_forger::follow_ring() {
  const std::size_t capacity = head().shape.capacity;
  packets_.emplace(seen_, at_ + ipc::segment_page + static_cast<std::size_t>(end_) * capacity,
                   capacity);
}

// Each record stays where it is, and most of them are as long as before.
void memory_forger::forge_packets(const host& forger) {
  network& net = forger.net();
  seen_.written.store(head().rings[static_cast<std::size_t>(end_)].written.load());
  for (auto packet = packets_->front(); !packet.empty(); packet = packets_->front()) {
    const std::size_t room = filled_up(packet.size());
    std::byte* const place = at_ + (packet.data() - at_);
    std::vector<std::byte> said(packet.begin(), packet.end());
    packets_->pop();
    if (!net.alter(forger, said, room)) continue;
    // Else the reader would find no packet behind it.
    if (filled_up(said.size()) != room) said.resize(room);
    std::memcpy(place, said.data(), said.size());
    set_length(place, net.numbers().chance(damaged_records)
                          ? net.numbers().next() >> net.numbers().below(64)
                          : said.size());
  }
}

// What counts are the words at the front; those of rings and slots follow.
void memory_forger::change_anything(network& net) const {
  rng& numbers = net.numbers();
  const std::size_t most = numbers.chance(700) ? sizeof(ipc::segment_head) : size_;
  const std::size_t place = numbers.below(most);
  const auto bit = std::byte{1} << numbers.below(8);
  if (!is_at_work(place)) at_[place] ^= bit;
}

}  // namespace gaudi::sim
