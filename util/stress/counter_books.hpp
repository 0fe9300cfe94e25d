// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operation.hpp"

namespace gaudi::stress {

/// What has a counter of its own (fi_cntr(3)); the names are those of libfabric's flags.
enum class counted_kind : unsigned { send, receive, read, write };
inline constexpr std::array<std::string_view, 4> counted_kinds{"FI_SEND", "FI_RECV", "FI_READ",
                                                               "FI_WRITE"};

/// What fi_cntr_read and fi_cntr_readerr give.
struct counter_value {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
};
using counter_values = std::array<counter_value, counted_kinds.size()>;

/// What an endpoint's counters have to count in a round, from the completions and from what was
/// injected, which has none.
class counter_books {
 public:
  /// values: the counters' before the round
  explicit counter_books(const counter_values& values) : before_(values) {}

  static counted_kind kind_of(operation op);

  void add(counted_kind kind, bool succeeded);
  /// One whose failure is not told as its own, so a counter decides.
  void add_injected() { ++injected_; }

  /// Ends added so far.
  std::uint64_t total() const;

  enum class verdict { balanced, late, wrong };
  /// late: a counter may still come to count what it lacks.
  /// has_loss: what was injected may have failed
  verdict compare(const counter_values& now, bool has_loss) const;

  /// The first counter that is not as it has to be, in words.
  std::optional<std::string> find_imbalance(const counter_values& now, bool has_loss) const;

 private:
  verdict compare_one(std::size_t kind, const counter_values& now, bool has_loss) const;

  counter_values before_;
  counter_values expected_{};
  std::uint64_t injected_ = 0;
};

}  // namespace gaudi::stress
