// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/latency_sampler.hpp"

#include <algorithm>
#include <chrono>

namespace gaudi::proto {

latency_sampler::latency_sampler(const base::clock& clock,
                                 const latency_histograms* histograms) noexcept
    : clock_(clock), histograms_(histograms) {
  left_.fill(1);
  for (sample& s : samples_) s.owner = this;
}

// Where nothing is timed the countdown is as long as it can be, and so is every other one.
void latency_sampler::restart(stream s) noexcept {
  left_[static_cast<std::size_t>(s)] = histograms_ ? period : 0;
}

void latency_sampler::begin(stream s, kind what, completion_spec& completion) noexcept {
  restart(s);
  if (!histograms_ || completion.hook) return;
  const auto unused =
      std::find_if(samples_.begin(), samples_.end(), [](const sample& of) { return !of.is_used; });
  if (unused == samples_.end()) return;
  unused->is_used = true;
  unused->what = what;
  unused->began = clock_.now();
  completion.hook = &*unused;
}

void latency_sampler::drop(completion_spec& completion) noexcept {
  if (completion.hook) static_cast<sample*>(completion.hook)->is_used = false;
  completion.hook = nullptr;
}

void latency_sampler::become_rendezvous(const completion_spec& completion) noexcept {
  if (completion.hook) static_cast<sample*>(completion.hook)->what = kind::rendezvous_send;
}

base::clock::time_point latency_sampler::begin(stream s) noexcept {
  restart(s);
  return histograms_ ? clock_.now() : base::clock::time_point{};
}

void latency_sampler::end(kind what, base::clock::time_point began) noexcept {
  base::counters::latency_histogram* const of = histograms_ ? histograms_->get(what) : nullptr;
  if (!of) return;
  const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(clock_.now() - began);
  of->add(static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0)));
}

// What fails has not taken as long as it takes.
bool latency_sampler::sample::operation_ended(cq_entry& entry) noexcept {
  if (entry.error == 0) owner->end(what, began);
  is_used = false;
  return false;
}

}  // namespace gaudi::proto
