// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace gaudi::proto {

/// Links of an item in one first-in-first-out queue. The queue is a ring; its oldest item, the
/// head, also stands for the queue wherever that is anchored: in a single pointer or in a bucket.
template <class Item>
struct fifo_link {
  Item* next;  ///< The ring, oldest first; the head's prev is the youngest.
  Item* prev;
  Item* chain;  ///< Head only: the next queue in the same bucket.
  Item** home;  ///< Head only: the pointer that points at this head; else null.
};

/// Queue operations. A queue is known by the pointer to its head ("slot"), null when it is empty.
/// Nothing allocates, and removal needs no slot, so any item leaves in constant time.
template <class Item, fifo_link<Item> Item::*Link>
struct fifo {
  /// Begins a queue of one item in `slot`, in front of the queues already chained there.
  static void start(Item*& slot, Item& item) noexcept {
    item.*Link = {&item, &item, nullptr, nullptr};
    hang(slot, item);
  }

  /// Moves a whole queue, given by its head, to `slot`. Its old slot must not be used any more.
  static void hang(Item*& slot, Item& head) noexcept { put_head(slot, head, slot); }

  /// Adds the youngest item to the queue that begins at `head`.
  static void append(Item& head, Item& item) noexcept {
    Item* last = (head.*Link).prev;
    item.*Link = {&head, last, nullptr, nullptr};
    (last->*Link).next = &item;
    (head.*Link).prev = &item;
  }

  /// Takes `item` out, wherever it stands. True when it was the last of its queue.
  static bool remove(Item& item) noexcept {
    const auto [next, prev, chain, home] = item.*Link;
    const bool last = next == &item;
    if (home && last) {
      *home = chain;
      if (chain) (chain->*Link).home = home;
    } else if (home) {
      put_head(*home, *next, chain);
    }
    (prev->*Link).next = next;
    (next->*Link).prev = prev;
    return last;
  }

  /// The item after `item` in the queue of `head`; null at its end.
  static Item* after(const Item& item, const Item* head) noexcept {
    Item* next = (item.*Link).next;
    return next == head ? nullptr : next;
  }

 private:
  static void put_head(Item*& slot, Item& head, Item* chain) noexcept {
    (head.*Link).chain = chain;
    (head.*Link).home = &slot;
    if (chain) (chain->*Link).home = &(head.*Link).chain;
    slot = &head;
  }
};

/// What an item is looked up by.
struct match_key {
  uint64_t tag;
  uint32_t source;
  bool operator==(const match_key&) const = default;
};

/// Counts nothing. A test's probe counts the key comparisons, which is what a lookup costs.
struct no_probe {
  static void compared() noexcept {}
};

/// Hash table of queues, one queue per key, so that many items of one key never lengthen the search
/// for another. Intrusive: only growth allocates, and where memory is short the table
/// stays as it is and works on. Neither owns its items nor locks; not movable, as heads point into
/// it.
template <class Item, fifo_link<Item> Item::*Link, match_key (*KeyOf)(const Item&) noexcept,
          class Probe>
class match_index {
  using queue = fifo<Item, Link>;

 public:
  match_index() noexcept = default;
  match_index(const match_index&) = delete;
  match_index& operator=(const match_index&) = delete;

  /// Makes room for `keys` different keys, so that growth does not interrupt traffic later.
  void reserve(std::size_t keys) noexcept {
    while (grow_at_ < keys && grow()) {
    }
  }

  void push(Item& item) noexcept {
    const match_key key = KeyOf(item);
    if (Item* head = find(key)) return queue::append(*head, item);
    queue::start(slot(key), item);
    if (++keys_ > grow_at_) grow();
  }

  void remove(Item& item) noexcept {
    if (queue::remove(item)) --keys_;
  }

  /// Follows the number of different keys queued at once, never the number of items that passed.
  [[nodiscard]] std::size_t bucket_count() const noexcept {
    return std::size_t{1} << (64 - shift_);
  }

  /// The oldest item of `key`, or null.
  [[nodiscard]] Item* find(match_key key) const noexcept {
    Item* head = slot(key);
    while (head && !is(*head, key)) head = (head->*Link).chain;
    return head;
  }

 private:
  static constexpr unsigned first_bits = 6;

  static bool is(const Item& head, const match_key& key) noexcept {
    Probe::compared();
    return KeyOf(head) == key;
  }

  /// Multiply-shift: the product's top bits choose the bucket. Folding first spreads tags that
  /// differ in their middle bits only (a communicator's number, say).
  ///
  /// Programs number what they send. Tags that differ in their lowest bits only share a cache line
  /// of buckets, and each still has a bucket of its own in it.
  static constexpr uint64_t in_line = 7;
  static uint64_t mix(const match_key& key) noexcept {
    uint64_t x = (key.tag & ~in_line) ^ (key.source * 0xd6e8feb86659fd93U);
    x ^= x >> 32;
    return x * 0x9e3779b97f4a7c15U;
  }

  Item*& slot(const match_key& key) const noexcept {
    return slots_[(mix(key) >> shift_) ^ (key.tag & in_line)];
  }

  [[gnu::noinline]] bool grow() noexcept {
    const std::size_t old_count = bucket_count();
    grow_at_ *= 2;  // Also when memory is short: tried again only after as many keys more.
    try {
      std::vector<Item*> bigger(old_count * 2);
      bigger.swap(heap_slots_);
      Item** old = slots_;
      slots_ = heap_slots_.data();
      --shift_;
      for (std::size_t i = 0; i != old_count; ++i) move_chain(old[i]);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void move_chain(Item* head) noexcept {
    while (head) {
      Item* chain = (head->*Link).chain;
      queue::hang(slot(KeyOf(*head)), *head);
      head = chain;
    }
  }

  std::array<Item*, std::size_t{1} << first_bits> first_slots_{};
  std::vector<Item*> heap_slots_;
  Item** slots_ = first_slots_.data();
  unsigned shift_ = 64 - first_bits;
  std::size_t keys_ = 0;
  std::size_t grow_at_ = first_slots_.size();
};

}  // namespace gaudi::proto
