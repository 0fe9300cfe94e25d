// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "common/sizes.hpp"
#include "dice.hpp"

namespace gaudi::stress {
namespace {

using common::mib;

constexpr std::size_t operations_per_worker = 64;
constexpr std::size_t element = sizeof(std::uint64_t);
constexpr std::size_t max_elements = 8;
constexpr std::size_t alignment = 64;
// Untouched bytes between any two ranges.
constexpr std::size_t guard = 64;
constexpr std::uint64_t dice_of_plan = 1;

std::size_t size_of_multi_buffers(std::size_t needed) {
  return needed / 2 + guard + needed;
}

/// Hands out the memory of all workers from its beginning on.
class layout {
 public:
  layout(std::size_t workers, std::size_t capacity) : capacity_(capacity), next_(workers) {
    const place sums = shared_sums(memory_kind::host);
    for (auto& of_worker : next_) of_worker.fill(sums.offset + sums.size);
  }

  bool has_room(unsigned worker, memory_kind kind, std::size_t size) const {
    return next_[worker][index_of(kind)] + size + 2 * guard + 3 * alignment <= capacity_;
  }

  /// shift: bytes from a multiple of the alignment.
  place take(unsigned worker, memory_kind kind, std::size_t size, std::size_t shift) {
    std::size_t& next = next_[worker][index_of(kind)];
    const std::size_t start = (next + guard + alignment - 1) / alignment * alignment + shift;
    next = start + size;
    return {kind, start, size};
  }

 private:
  std::size_t capacity_;
  std::vector<std::array<std::size_t, kinds.size()>> next_;
};

class planner {
 public:
  planner(const settings& s, const std::vector<member>& members, std::uint64_t round,
          const fault& f)
      : settings_(s),
        members_(members),
        fault_(f),
        dice_(s.seed, round, dice_of_plan),
        layout_(members.size(), capacity_for(s)) {}

  std::vector<planned> make() {
    std::vector<planned> wanted;
    for (std::size_t i = 0; i < operations_per_worker * members_.size(); ++i)
      wanted.push_back(choose());
    find_longest(wanted);
    choose_multi(wanted);
    std::vector<planned> plan;
    for (planned& p : wanted)
      if (lay_out(p)) plan.push_back(p);
    return plan;
  }

 private:
  using pair = std::pair<unsigned, unsigned>;
  static pair pair_of(const planned& p) { return {p.initiator, p.target}; }

  planned choose() {
    planned p;
    const auto count = static_cast<unsigned>(members_.size());
    p.initiator = static_cast<unsigned>(dice_.below(count));
    p.target = static_cast<unsigned>((p.initiator + 1 + dice_.below(count - 1)) % count);
    p.op = settings_.operations[dice_.below(settings_.operations.size())];
    p.size = choose_size(p);
    p.near.memory = choose_memory(p, p.initiator, is_injected(p.op) || is_atomic(p.op));
    p.far.memory = choose_memory(p, p.target, false);
    p.mode = choose_mode(p);
    return p;
  }

  // Whether a message has come whose sender or receiver loses its device nobody could tell before
  // it is received.
  receive_mode choose_mode(const planned& p) {
    if (!is_tagged(p.op) || is_lost(p.initiator, p.near.memory) || is_lost(p.target, p.far.memory))
      return receive_mode::plain;
    std::vector<receive_mode> possible;
    if (settings_.peek) possible.push_back(receive_mode::peek);
    if (settings_.claim) possible.push_back(receive_mode::claim);
    if (settings_.discard) possible.push_back(receive_mode::discard);
    if (settings_.claim && settings_.discard) possible.push_back(receive_mode::claim_discard);
    if (possible.empty() || !dice_.one_in(3)) return receive_mode::plain;
    return possible[dice_.below(possible.size())];
  }

  std::size_t choose_size(const planned& p) {
    if (is_atomic(p.op)) return element * (1 + dice_.below(max_elements));
    const std::size_t limit = is_injected(p.op)
                                  ? std::min(settings_.max_size, members_[p.initiator].inject)
                                  : settings_.max_size;
    if (is_message(p.op) && dice_.one_in(16)) return 0;
    if (limit == 0) return 0;
    // Sizes of each magnitude are as frequent.
    const std::size_t top =
        std::min(limit, std::size_t{1}
                            << dice_.below(static_cast<std::uint64_t>(std::bit_width(limit)) + 1));
    return top / 2 + 1 + dice_.below(top - top / 2);
  }

  bool is_lost(unsigned worker, memory_kind kind) const {
    return fault_.kind == fault_kind::reset && fault_.victim == worker &&
           kind == memory_kind::device;
  }

  memory_kind choose_memory(const planned& p, unsigned worker, bool host_only) {
    const bool lost = is_lost(worker, memory_kind::device);
    if (host_only || !members_[worker].device || (lost && is_untagged(p.op)))
      return memory_kind::host;
    if (settings_.memory == memory_choice::device) return memory_kind::device;
    return dice_.one_in(2) ? memory_kind::device : memory_kind::host;
  }

  // Which untagged message comes into which receive depends on what is cancelled.
  void find_longest(const std::vector<planned>& wanted) {
    for (const planned& p : wanted) {
      if (!is_untagged(p.op)) continue;
      std::size_t& longest = longest_[pair_of(p)];
      longest = std::max(longest, p.size);
    }
  }

  // All untagged messages of a pair, or none: they come in their order.
  void choose_multi(std::vector<planned>& wanted) {
    if (!settings_.multi_receive) return;
    std::map<pair, std::vector<planned*>> messages;
    std::size_t longest = 1;
    for (planned& p : wanted) {
      if (!is_untagged(p.op)) continue;
      messages[pair_of(p)].push_back(&p);
      longest = std::max(longest, p.size);
    }
    for (auto& [of_pair, own] : messages) {
      if (!dice_.one_in(2)) continue;
      std::size_t sum = 0;
      for (const planned* p : own) sum += p->size;
      const memory_kind kind = own.front()->far.memory;
      const std::size_t size = size_of_multi_buffers(sum + longest + 1);
      // Others need room as well.
      if (size > capacity_for(settings_) / 2 || !layout_.has_room(of_pair.second, kind, size))
        continue;
      const place all = layout_.take(of_pair.second, kind, size, dice_.below(element));
      for (planned* p : own) {
        p->mode = receive_mode::multi;
        p->far = all;
      }
    }
  }

  bool lay_out_near(planned& p) {
    if (!layout_.has_room(p.initiator, p.near.memory, p.size + alignment)) return false;
    p.near = layout_.take(p.initiator, p.near.memory, p.size, dice_.below(element));
    return true;
  }

  bool lay_out(planned& p) {
    if (p.mode == receive_mode::multi) return lay_out_near(p);
    const std::size_t far_size = is_untagged(p.op) ? longest_[pair_of(p)] : p.size;
    if (!layout_.has_room(p.initiator, p.near.memory, p.size + 4 * alignment + 2 * guard) ||
        !layout_.has_room(p.target, p.far.memory, far_size) ||
        !layout_.has_room(p.target, memory_kind::host, far_size + p.size + 2 * alignment + guard))
      return false;
    const std::size_t shift = is_atomic(p.op) ? 0 : dice_.below(element);
    p.near = layout_.take(p.initiator, p.near.memory, p.size, shift);
    if (p.op == operation::atomic) {
      p.far = shared_sums(p.far.memory);
      p.far.size = p.size;
    } else {
      p.far = layout_.take(p.target, p.far.memory, far_size,
                           is_atomic(p.op) ? 0 : dice_.below(element));
    }
    if (is_lost(p.target, p.far.memory) && is_message(p.op))
      p.spare = layout_.take(p.target, memory_kind::host, p.size, 0);
    if (p.op == operation::fetch || p.op == operation::compare)
      p.result = layout_.take(p.initiator, memory_kind::host, p.size, 0);
    if (p.op == operation::compare)
      p.compared = layout_.take(p.initiator, memory_kind::host, p.size, 0);
    return true;
  }

  const settings& settings_;
  const std::vector<member>& members_;
  const fault& fault_;
  dice dice_;
  layout layout_;
  std::map<pair, std::size_t> longest_;
};

}  // namespace

std::size_t capacity_for(const settings& s) {
  return 4 * s.max_size + 4 * mib;
}

place shared_sums(memory_kind kind) {
  return {kind, guard, element * max_elements};
}

std::array<place, 2> multi_buffers(const place& all) {
  const std::size_t first = (all.size - guard) / 3;
  place front = all;
  front.size = first;
  place back = all;
  back.offset += first + guard;
  back.size -= first + guard;
  return {front, back};
}

std::size_t min_multi_receive(const std::vector<planned>& operations) {
  std::size_t longest = 1;
  for (const planned& p : operations)
    if (p.mode == receive_mode::multi) longest = std::max(longest, p.size);
  return longest;
}

std::vector<planned> plan_round(const settings& s, const std::vector<member>& members,
                                std::uint64_t round, const fault& f) {
  return planner(s, members, round, f).make();
}

}  // namespace gaudi::stress
