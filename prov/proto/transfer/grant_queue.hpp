// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <deque>
#include <list>

namespace gaudi::proto {

class connection;
class shared_slots;
struct transfer;

/// The transfers that wait for staging slots, in a line for each connection: where there is no slot
/// for one transfer of a connection there is none for those behind it, so one that comes back is
/// offered to each line, and not to each transfer. Not thread safe: the caller holds the domain
/// lock.
class grant_queue {
 public:
  /// To the end of its connection's line. `from`: whose slots it is given; null: the endpoint's
  /// own. Throws std::bad_alloc.
  void add(transfer& t, const connection& c, const shared_slots* from);
  /// Wherever it waits.
  void remove(const transfer& t) noexcept;

  /// Calls give(transfer&) for those at the heads of the lines that wait for slots of `from`, which
  /// says whether it has all that it wants: it waits no more then, and the turn goes to the next
  /// line. give() neither adds nor removes any.
  template <class Give>
  void serve(const shared_slots* from, Give&& give) {
    std::size_t in_vain = 0;  // lines in a row
    while (in_vain < lines_.size()) {
      line& first = lines_.front();
      const bool has_all = first.from == from && give(*first.waiting.front());
      in_vain = has_all ? 0 : in_vain + 1;
      if (has_all) first.waiting.pop_front();
      if (first.waiting.empty()) {
        lines_.pop_front();
      } else {
        lines_.splice(lines_.end(), lines_, lines_.begin());
      }
    }
  }

  [[nodiscard]] bool empty() const noexcept { return lines_.empty(); }
  /// Transfers that wait.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct line {
    const connection* of;
    const shared_slots* from;
    std::deque<transfer*> waiting;  // never empty
  };
  std::list<line> lines_;
};

}  // namespace gaudi::proto
