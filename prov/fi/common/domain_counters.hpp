// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/counter_names.hpp"
#include "base/counters_page.hpp"
#include "base/latency_histogram.hpp"
#include "core/inner_domain.hpp"
#include "proto/operation/latency_sampler.hpp"
#include "proto/operation/path_counters.hpp"
#include "reg/registration_cache.hpp"

namespace gaudi::fi {

/// A domain's counters as base/counter_names.hpp places them. What grows at its end grows into
/// places that are free.
struct domain_counters {
  reg::published_counters registrations;
  std::uint64_t endpoints = 0;  // under the domain's lock
  std::array<std::uint64_t, 7> spare{};
  proto::path_counters paths;
};

static_assert(offsetof(domain_counters, paths) ==
              base::counters::first_path_value * sizeof(std::uint64_t));
static_assert(sizeof(domain_counters) ==
                  base::counters::value_count(base::counters::block_kind::domain) *
                      sizeof(std::uint64_t),
              "a counter without a name in base/counter_names.hpp, or a name without a counter");

/// How long the operations of a domain take, where others see its counters.
class domain_latencies {
 public:
  /// Throws std::bad_alloc.
  explicit domain_latencies(const core::inner_domain& core);

  /// Null: nobody sees them.
  [[nodiscard]] const proto::latency_histograms* get() const noexcept {
    return published_.empty() ? nullptr : &histograms_;
  }

 private:
  std::deque<base::counters::published<base::counters::latency_histogram>> published_;
  proto::latency_histograms histograms_;
};

/// What the counters of a domain over `core` are about.
base::counters::subject subject_of(const core::inner_domain& core) noexcept;

}  // namespace gaudi::fi
