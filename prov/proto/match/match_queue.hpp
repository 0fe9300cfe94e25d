// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <boost/intrusive/list.hpp>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "proto/match/match_index.hpp"

namespace gaudi::proto {

/// A posted receive's source when it takes messages from every peer. Never a message's source.
inline constexpr uint32_t any_source = UINT32_MAX;

/// Link of a list in the order of posting or of arrival.
using order_hook =
    boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;

/// Base of the caller's receive. The caller fills tag, ignore and source before post() and leaves
/// them alone until the receive has left the queue; the rest belongs to the queue.
/// What a match touches comes first, in one cache line.
struct posted_hook {
  uint64_t tag = 0;
  uint64_t ignore = 0;           ///< Bits of the tag that do not count.
  uint32_t source = any_source;  ///< The caller's number for the peer, or any_source.
  // The rest is set by post().
  uint64_t sequence;  ///< The posting order.
  fifo_link<posted_hook> by_key;
  order_hook order;

  posted_hook() noexcept {}
  posted_hook(uint64_t t, uint64_t i, uint32_t s) noexcept : tag(t), ignore(i), source(s) {}
  posted_hook(const posted_hook&) = delete;
  posted_hook& operator=(const posted_hook&) = delete;
};

/// Base of the caller's unexpected message. The caller fills tag and source before add_arrival().
struct arrived_hook {
  uint64_t tag = 0;
  uint32_t source = 0;  ///< The caller's number for the peer; not any_source.
  fifo_link<arrived_hook> by_key{};
  fifo_link<arrived_hook> by_tag{};
  fifo_link<arrived_hook> by_source{};
  order_hook order{};

  arrived_hook() = default;
  arrived_hook(const arrived_hook&) = delete;
  arrived_hook& operator=(const arrived_hook&) = delete;
};

/// The receives posted and the messages that came unexpected, of one kind: an endpoint has one
/// queue for tagged traffic and one for untagged (tag 0, ignore 0 throughout).
///
/// A receive takes a message when their tags agree outside the receive's ignore mask and the
/// receive's source is the message's or any_source (fi_tagged(3)). Of several receives the one
/// posted first takes the message, of several messages the one that came first is taken.
///
/// Every operation with an ignore mask of 0 is O(1), removal always is. Only receives with a mask
/// search: as posted ones, among each other; for a message, in arrival order, within
/// their source if they name one.
///
/// Owns no item: what is queued must outlive its stay. Allocates only to grow a table, and does
/// without where memory is short. Not thread safe: the caller holds the domain lock.
/// `Probe` lets a test count key comparisons; use match_queue.
template <class Probe = no_probe>
class basic_match_queue {
 public:
  /// Makes room for `depth` receives and as many unexpected messages of different keys.
  void reserve(std::size_t depth) noexcept {
    posted_by_key_.reserve(depth);
    arrived_by_key_.reserve(depth);
    arrived_by_tag_.reserve(depth);
  }

  /// Queues a receive behind all others. First ask find_arrival(): posting takes no message.
  void post(posted_hook& receive) noexcept {
    receive.sequence = next_sequence_++;
    posting_order_.push_back(receive);
    if (receive.ignore != 0) [[unlikely]]
      return post_masked(receive);
    ++(receive.source == any_source ? any_source_count_ : directed_count_);
    posted_by_key_.push(receive);
  }

  /// Takes a receive out: cancelled, or matched.
  void remove(posted_hook& receive) noexcept {
    posting_order_.erase(posting_order_.iterator_to(receive));
    if (receive.ignore != 0) [[unlikely]]
      return remove_masked(receive);
    --(receive.source == any_source ? any_source_count_ : directed_count_);
    posted_by_key_.remove(receive);
  }

  /// The receive that takes a message from `source` with `tag`: of those that may, the first
  /// posted. It has left the queue. Null when there is none: add_arrival() then.
  [[nodiscard]] posted_hook* match_arrival(uint32_t source, uint64_t tag) noexcept {
    posted_hook* const first = find_posted_for(source, tag);
    if (first) remove(*first);
    return first;
  }

  /// The same, but the receive stays where it is.
  [[nodiscard, gnu::always_inline]] posted_hook* find_posted_for(uint32_t source,
                                                                 uint64_t tag) noexcept {
    assert(source != any_source);
    posted_hook* first = nullptr;
    if (directed_count_ != 0) first = posted_by_key_.find({tag, source});
    if (any_source_count_ != 0) first = earlier(first, posted_by_key_.find({tag, any_source}));
    if (masked_) first = earlier(first, first_masked(source, tag, first));
    return first;
  }

  /// Queues a message for which match_arrival() found no receive.
  void add_arrival(arrived_hook& message) noexcept {
    assert(message.source != any_source);
    arrived_by_key_.push(message);
    arrived_by_tag_.push(message);
    arrived_by_source_.push(message);
    arrival_order_.push_back(message);
    ++arrived_count_;
  }

  /// The message that a receive of (source or any_source, tag, ignore) takes: of those
  /// that fit, the first that came. It stays queued (FI_PEEK); remove() takes it. Null when none
  /// fits.
  [[nodiscard]] arrived_hook* find_arrival(uint32_t source, uint64_t tag,
                                           uint64_t ignore) noexcept {
    return arrived_count_ == 0 ? nullptr : find_among_arrivals(source, tag, ignore);
  }

  void remove(arrived_hook& message) noexcept {
    arrived_by_key_.remove(message);
    arrived_by_tag_.remove(message);
    arrived_by_source_.remove(message);
    arrival_order_.erase(arrival_order_.iterator_to(message));
    --arrived_count_;
  }

  /// Calls `visit(posted_hook&)` for each receive in posting order. It may remove the one it is
  /// given.
  template <class Visit>
  void for_each_posted(Visit&& visit) {
    for (auto it = posting_order_.begin(); it != posting_order_.end();) visit(*it++);
  }

  /// Calls `visit(arrived_hook&)` for each message in arrival order. It may remove the one it is
  /// given.
  template <class Visit>
  void for_each_arrived(Visit&& visit) {
    for (auto it = arrival_order_.begin(); it != arrival_order_.end();) visit(*it++);
  }

  /// The first posted receive for which `wanted(const posted_hook&)` is true, or null. Linear: for
  /// fi_cancel.
  template <class Predicate>
  [[nodiscard]] posted_hook* find_posted(Predicate&& wanted) {
    for (posted_hook& receive : posting_order_) {
      if (wanted(receive)) return &receive;
    }
    return nullptr;
  }

  [[nodiscard]] std::size_t posted_count() const noexcept {
    return directed_count_ + any_source_count_ + masked_count_;
  }
  [[nodiscard]] std::size_t arrived_count() const noexcept { return arrived_count_; }

 private:
  template <class Item>
  using order_list =
      boost::intrusive::list<Item, boost::intrusive::member_hook<Item, order_hook, &Item::order>,
                             boost::intrusive::constant_time_size<false>>;

  static match_key posted_key(const posted_hook& r) noexcept { return {r.tag, r.source}; }
  static match_key full_key(const arrived_hook& m) noexcept { return {m.tag, m.source}; }
  static match_key tag_key(const arrived_hook& m) noexcept { return {m.tag, any_source}; }
  static match_key source_key(const arrived_hook& m) noexcept { return {0, m.source}; }

  using masked_fifo = fifo<posted_hook, &posted_hook::by_key>;
  using source_fifo = fifo<arrived_hook, &arrived_hook::by_source>;

  [[gnu::noinline]] void post_masked(posted_hook& receive) noexcept {
    ++masked_count_;
    if (masked_) return masked_fifo::append(*masked_, receive);
    masked_fifo::start(masked_, receive);
  }
  [[gnu::noinline]] void remove_masked(posted_hook& receive) noexcept {
    --masked_count_;
    masked_fifo::remove(receive);
  }

  static posted_hook* earlier(posted_hook* a, posted_hook* b) noexcept {
    if (!a || !b) return a ? a : b;
    return a->sequence < b->sequence ? a : b;
  }

  static bool tags_agree(uint64_t a, uint64_t b, uint64_t ignore) noexcept {
    Probe::compared();
    return ((a ^ b) & ~ignore) == 0;
  }

  /// The first masked receive that fits; the search ends where `rival` was posted.
  [[gnu::noinline]] posted_hook* first_masked(uint32_t source, uint64_t tag,
                                              const posted_hook* rival) noexcept {
    const uint64_t end = rival ? rival->sequence : UINT64_MAX;
    for (posted_hook* r = masked_; r && r->sequence < end; r = masked_fifo::after(*r, masked_)) {
      const bool source_fits = r->source == any_source || r->source == source;
      if (source_fits && tags_agree(r->tag, tag, r->ignore)) return r;
    }
    return nullptr;
  }

  [[gnu::noinline]] arrived_hook* find_among_arrivals(uint32_t source, uint64_t tag,
                                                      uint64_t ignore) noexcept {
    if (ignore != 0) return search_arrivals(source, tag, ignore);
    if (source == any_source) return arrived_by_tag_.find({tag, any_source});
    return arrived_by_key_.find({tag, source});
  }

  arrived_hook* search_arrivals(uint32_t source, uint64_t tag, uint64_t ignore) noexcept {
    if (source == any_source) {
      for (arrived_hook& m : arrival_order_) {
        if (tags_agree(m.tag, tag, ignore)) return &m;
      }
      return nullptr;
    }
    arrived_hook* const head = arrived_by_source_.find({0, source});
    for (arrived_hook* m = head; m; m = source_fifo::after(*m, head)) {
      if (tags_agree(m->tag, tag, ignore)) return m;
    }
    return nullptr;
  }

  match_index<posted_hook, &posted_hook::by_key, &posted_key, Probe> posted_by_key_;
  posted_hook* masked_ = nullptr;  // Receives with an ignore mask, as one fifo.
  std::size_t directed_count_ = 0;
  std::size_t any_source_count_ = 0;
  std::size_t masked_count_ = 0;
  uint64_t next_sequence_ = 0;
  order_list<posted_hook> posting_order_;

  match_index<arrived_hook, &arrived_hook::by_key, &full_key, Probe> arrived_by_key_;
  match_index<arrived_hook, &arrived_hook::by_tag, &tag_key, Probe> arrived_by_tag_;
  match_index<arrived_hook, &arrived_hook::by_source, &source_key, Probe> arrived_by_source_;
  order_list<arrived_hook> arrival_order_;
  std::size_t arrived_count_ = 0;
};

using match_queue = basic_match_queue<>;

}  // namespace gaudi::proto
