// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/make_room.hpp"

namespace gaudi::proto {

/// Connections that were closed by their peers or are of no use any more, by number, and end at the
/// next poll. Not thread safe: the caller holds the domain lock.
class pending_ends {
 public:
  /// Room for as many connections as there are. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(ends_, connections); }
  /// `error` is a positive FI_E* code. Where it is here already, the first error counts. `final`:
  /// its session ends as well; once said, this stays so.
  void add(std::uint32_t id, int error, bool final) noexcept {
    const auto known =
        std::find_if(ends_.begin(), ends_.end(), [&](const pending& e) { return e.id == id; });
    if (known == ends_.end()) {
      ends_.push_back({id, error, final});
    } else {
      known->final = known->final || final;
    }
  }
  [[nodiscard]] bool contains(std::uint32_t id) const noexcept {
    return std::any_of(ends_.begin(), ends_.end(), [&](const pending& e) { return e.id == id; });
  }
  [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }

  /// Calls end(id, error, final) for each that is here now, in order, and forgets them; more may be
  /// added meanwhile, and stay.
  template <class End>
  void take(End&& end) {
    const std::size_t count = ends_.size();
    for (std::size_t i = 0; i < count; ++i) end(ends_[i].id, ends_[i].error, ends_[i].final);
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  struct pending {
    std::uint32_t id;
    int error;
    bool final;
  };
  std::vector<pending> ends_;
};

}  // namespace gaudi::proto
