// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/make_room.hpp"
#include "ipc/byte_ring.hpp"

namespace gaudi::proto {

class connection;

/// Whose ring of packets to look at now. A host may have many peers of which few say something, so
/// those that have been quiet for long are looked at in turn, a few at each look: a look costs the
/// same however many they are. All are looked at when a round of turns has taken max_round, so that
/// whoever looks rarely misses nobody.
///
/// Not thread safe: the caller holds the domain lock.
class ring_watch {
 public:
  static constexpr std::chrono::microseconds max_round{20};
  static constexpr unsigned looks_until_quiet = 256;  // that found nothing
  static constexpr std::size_t quiet_at_once = 8;

  explicit ring_watch(base::clock clock) noexcept : clock_(clock) {}

  /// Room for so many. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(watched_, connections); }
  /// `ring` outlives remove(c). False: no memory.
  [[nodiscard]] bool add(connection& c, const ipc::ring_reader& ring) noexcept {
    if (!base::make_room(watched_)) return false;
    watched_.push_back({&c, &ring});
    wake(watched_.size() - 1);
    return true;
  }
  void remove(const connection& c) noexcept;
  [[nodiscard]] bool empty() const noexcept { return watched_.empty(); }
  /// The next look is at all of them.
  void expect_all() noexcept { busy_ = watched_.size(); }

  /// Calls take(connection) for those that have something, as far as it is their turn; take() says
  /// whether it found a packet, and may remove any of them. Whether one did.
  template <class Take>
  bool look(Take&& take) {
    const bool any = look_at_busy(take);
    return busy_ == watched_.size() ? any : look_at_quiet(take) || any;
  }
  /// The same for those that have said something lately alone, each of which take() has to take to
  /// the end of its turn. Whether it did, and there was one.
  template <class Take>
  bool look_at_busy_only(Take&& take) {
    bool any = false;
    for (std::size_t i = 0; i < busy_; ++i) {
      watched& w = watched_[i];
      if (w.ring->is_empty()) continue;
      w.empty_looks = 0;
      any = true;
      if (!take(*w.peer)) return false;
    }
    return any;
  }
  /// Whether it is so for all.
  template <class Predicate>
  [[nodiscard]] bool all_of(Predicate&& is_so) const {
    return std::all_of(watched_.begin(), watched_.end(),
                       [&](const watched& w) { return is_so(*w.peer); });
  }

 private:
  struct watched {
    connection* peer;
    const ipc::ring_reader* ring;
    unsigned empty_looks = 0;  // since there was something
  };

  template <class Take>
  bool look_at_busy(Take& take) {
    bool any = false;
    for (std::size_t i = 0; i < busy_;) {
      watched& w = watched_[i];
      connection* const peer = w.peer;
      if (w.ring->is_empty()) {
        if (++w.empty_looks < looks_until_quiet) {
          ++i;
        } else {
          std::swap(w, watched_[--busy_]);
        }
        continue;
      }
      w.empty_looks = 0;
      any = take(*peer) || any;
      if (i < busy_ && watched_[i].peer == peer) ++i;
    }
    return any;
  }
  template <class Take>
  bool look_at_quiet(Take& take) {
    bool any = false;
    for (std::size_t left = quiet_in_this_look(); left != 0 && busy_ < watched_.size();) {
      if (next_ < busy_ || next_ >= watched_.size()) next_ = busy_;
      const std::size_t end = std::min(next_ + left, watched_.size());
      left -= end - next_;
      next_ = skip_empty(next_, end);
      if (next_ == end) continue;
      const std::size_t place = next_++;
      left += end - next_;
      connection* const peer = watched_[place].peer;
      wake(place);
      any = take(*peer) || any;
    }
    return any;
  }
  // The first one of [begin, end) that has something, or `end`.
  [[nodiscard]] std::size_t skip_empty(std::size_t begin, std::size_t end) const noexcept {
    const watched* const first = watched_.data();
    const watched* w = first + begin;
    while (w != first + end && w->ring->is_empty()) ++w;
    return static_cast<std::size_t>(w - first);
  }

  /// How many of them have their turn.
  [[nodiscard]] std::size_t quiet_in_this_look() noexcept {
    const std::size_t quiet = watched_.size() - busy_;
    if (quiet <= quiet_at_once) return quiet;
    const auto now = clock_.now();
    const bool is_late = now - round_began_ >= max_round;
    looked_at_ += quiet_at_once;
    if (is_late || looked_at_ >= quiet) {
      looked_at_ = 0;
      round_began_ = now;
    }
    if (is_late) next_ = busy_;  // what wake() moves to an earlier place has had its turn then
    return is_late ? quiet : quiet_at_once;
  }
  void wake(std::size_t place) noexcept {
    watched_[place].empty_looks = 0;
    looked_at_ = 0;  // one that has not had its turn may be where others have
    if (place >= busy_) std::swap(watched_[place], watched_[busy_++]);
  }

  const base::clock clock_;
  std::vector<watched> watched_;
  std::size_t busy_ = 0;       // so many at the front are looked at each time
  std::size_t next_ = 0;       // of the others, whose turn it is
  std::size_t looked_at_ = 0;  // of the others, in this round
  base::clock::time_point round_began_{};
};

inline void ring_watch::remove(const connection& c) noexcept {
  const auto found = std::find_if(watched_.begin(), watched_.end(),
                                  [&](const watched& w) { return w.peer == &c; });
  if (found == watched_.end()) return;
  looked_at_ = 0;
  auto place = static_cast<std::size_t>(found - watched_.begin());
  if (place < busy_) {
    std::swap(watched_[place], watched_[--busy_]);
    place = busy_;
  }
  std::swap(watched_[place], watched_.back());
  watched_.pop_back();
}

}  // namespace gaudi::proto
