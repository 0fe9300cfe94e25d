// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/latency_histogram.hpp"
#include "proto/operation/completion_hook.hpp"
#include "proto/operation/completion_spec.hpp"

namespace gaudi::proto {

/// Of a domain, one for each kind; null: its times are not wanted.
struct latency_histograms {
  std::array<base::counters::latency_histogram*, base::counters::latency_names.size()> of_kind{};

  [[nodiscard]] base::counters::latency_histogram* get(
      base::counters::latency_kind kind) const noexcept {
    return of_kind[static_cast<std::size_t>(kind)];
  }
};

/// Takes the time of some of an endpoint's operations. To ask the clock for each would cost more
/// than what is looked for, so it is asked for the first one and for one in `period` after that, by
/// a countdown; an operation that is timed has a hook in its completion, so that all others cost
/// nothing at their end.
///
/// Not thread safe: the caller holds the domain lock.
class latency_sampler {
 public:
  using kind = base::counters::latency_kind;

  /// Has a countdown of its own. A message is counted before it is known which kind it is.
  enum class stream : std::uint8_t { send, receive, write, read, copy };

  /// A prime, so that what an application does in turn is not always the same of it that is timed.
  static constexpr std::uint32_t period = 61;
  /// Of operations that are under way. What comes on top is not timed.
  static constexpr std::size_t max_samples = 32;

  /// `histograms`: null: nothing is timed. They outlive this, which outlives what is under way.
  latency_sampler(const base::clock& clock, const latency_histograms* histograms) noexcept;
  latency_sampler(const latency_sampler&) = delete;
  latency_sampler& operator=(const latency_sampler&) = delete;

  /// Whether this operation is one that is timed.
  [[nodiscard]] bool is_due(stream s) noexcept { return --left_[static_cast<std::size_t>(s)] == 0; }

  /// Once is_due() said so, each of these begins the next period. What has a hook already keeps it
  /// and is not timed.
  void begin(stream s, kind what, completion_spec& completion) noexcept;
  /// The same for an operation that `post` posts, with 0 where it has begun. The countdown has just
  /// begun again, so `post` may be who asked is_due().
  template <class Params, class Post>
  [[gnu::noinline]] int post(stream s, kind what, const Params& params, Post&& post) {
    Params timed = params;
    begin(s, what, timed.completion);
    const int ret = post(timed);
    if (ret != 0) drop(timed.completion);
    return ret;
  }
  /// The operation was not begun after all: nobody will hear of its end.
  static void drop(completion_spec& completion) noexcept;
  /// Where there is no completion: when it began, for end().
  [[nodiscard]] base::clock::time_point begin(stream s) noexcept;
  void end(kind what, base::clock::time_point began) noexcept;

  /// A message that was timed as one is a rendezvous.
  static void become_rendezvous(const completion_spec& completion) noexcept;

 private:
  struct sample final : completion_hook {
    virtual ~sample() = default;
    bool operation_ended(cq_entry& entry) noexcept override;

    latency_sampler* owner = nullptr;
    kind what = kind::message;
    bool is_used = false;
    base::clock::time_point began{};
  };

  void restart(stream s) noexcept;

  const base::clock clock_;
  const latency_histograms* const histograms_;
  std::array<std::uint32_t, 5> left_{};
  std::array<sample, max_samples> samples_;
};

}  // namespace gaudi::proto
