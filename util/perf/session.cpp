// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.hpp"

#include <algorithm>

#include "common/latency.hpp"

namespace gaudi::perf {

session::session(const session_request& request, oob_channel& oob, bool client)
    : oob_(oob), client_(client), threads_(request.threads), timeout_(request.timeout) {
  for (std::size_t i = 0; i < request.pairs; ++i)
    pairs_.push_back(std::make_unique<pair>(request.ep, i, client));
  for (const auto& one : pairs_) one->connect(oob);
  oob.set_idle_work([this] { poll(); });
}

session::~session() {
  oob_.set_idle_work({});
}

void session::use_memory(memory_kind kind, std::size_t capacity) {
  for (const auto& one : pairs_) one->use_memory(kind, capacity, oob_);
}

// The pairs of this thread: all, where no others drive some.
void session::poll() const {
  if (crew_) {
    crew::poll(crew_->own());
  } else {
    for (const auto& one : pairs_) one->ep().progress();
  }
}

measurement session::run(const step& s) {
  const std::vector<path_bytes> before = count_all_paths();
  const path_reasons reasons_before = count_all_reasons();
  crew_.emplace(pairs_, threads_, timeout_, [this] { return oob_.peer_gone(); });
  measurement result = s.pages != 0 ? run_pages(s) : measure(s);
  crew_.reset();
  add_paths(result, before);
  add_reasons_since(result, reasons_before);
  return result;
}

measurement session::measure(const step& s) {
  outcome warmup;
  outcome alone;
  outcome streamed;
  run_part(s, phase::latency, s.warmup, warmup);
  run_part(s, phase::latency, s.iterations, alone);
  run_part(s, phase::stream, s.warmup, warmup);
  std::uint64_t count = 0;
  do {
    run_part(s, phase::stream, s.iterations, streamed);
    count += s.iterations;
  } while (streams_on(s, streamed.elapsed));

  const auto messages = static_cast<double>(count * (s.bidirectional ? 2 : 1));
  const auto rates = [&](double number, double elapsed) -> pair_rates {
    return {.megabytes_per_second = number * static_cast<double>(s.size) / elapsed,
            .messages_per_second = number / elapsed * 1e6,
            .path = {}};
  };
  const pair_rates all = rates(messages * static_cast<double>(pairs_.size()), streamed.elapsed);
  measurement result;
  result.size = s.size;
  result.iterations = count * pairs_.size();
  result.latency = common::summarise(std::move(alone.times));
  result.megabytes_per_second = all.megabytes_per_second;
  result.messages_per_second = all.messages_per_second;
  if (s.stalls)
    result.longest_stall =
        std::max(streamed.longest_stall, oob_.exchange(streamed.longest_stall).get<double>());
  if (pairs_.size() > 1)
    for (const double elapsed : streamed.pair_elapsed)
      result.pairs.push_back(rates(messages, elapsed));
  return result;
}

void session::run_part(const step& s, phase part, std::uint64_t count, outcome& sum) {
  sum.pair_elapsed.resize(pairs_.size());
  const std::uint64_t length = burst_length(s, part, count);
  for (std::uint64_t first = 0; first < count; first += length)
    run_burst(s, {.part = part, .first = first, .count = std::min(length, count - first)}, sum);
}

// Filling and comparing are not in the time: both sides meet before and after.
void session::run_burst(const step& s, const burst_range& range, outcome& sum) {
  bursts all;
  for (const auto& one : pairs_) all.push_back(make_burst(*one, s, range));
  crew_->run([&](const crew::group& own) {
    for (const pair* one : own) all[one->number()]->prepare();
  });
  oob_.barrier();
  if (s.stalls)
    for (const auto& one : pairs_) one->ep().time_stalls();
  const std::vector<double> ended = drive(all, s);
  for (const auto& one : pairs_)
    sum.longest_stall = std::max(sum.longest_stall, one->ep().stop_timing_stalls());
  oob_.barrier();
  crew_->run([&](const crew::group& own) {
    for (const pair* one : own) all[one->number()]->verify();
  });

  sum.elapsed += *std::max_element(ended.begin(), ended.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum.pair_elapsed[i] += ended[i];
    sum.times.insert(sum.times.end(), all[i]->times().begin(), all[i]->times().end());
  }
}

// When each pair ended, in microseconds from the start of all. Each thread goes round its pairs.
std::vector<double> session::drive(bursts& all, const step& s) {
  std::vector<double> ended(all.size());
  const common::stopwatch watch;
  crew_->run([&](const crew::group& own) {
    crew::group left = own;
    const auto finish = [&](const pair* one) {
      if (!all[one->number()]->advance()) return false;
      ended[one->number()] = watch.microseconds();
      return true;
    };
    crew_->wait_until(
        own,
        [&] {
          std::erase_if(left, finish);
          return left.empty();
        },
        name_of(s.op));
  });
  return ended;
}

// The client decides for both, by its own clock.
bool session::streams_on(const step& s, double elapsed) {
  if (s.duration <= 0) return false;
  if (!client_) return oob_.receive().get<bool>();
  const bool more = elapsed < s.duration * 1e6;
  oob_.send(more);
  return more;
}

std::vector<path_bytes> session::count_all_paths() {
  std::vector<path_bytes> counts;
  for (const auto& one : pairs_) counts.push_back(count_paths(one->ep()));
  return counts;
}

path_reasons session::count_all_reasons() {
  path_reasons sum;
  for (const auto& one : pairs_) add_reasons(sum, one->ep());
  return sum;
}

// Of both sides together, as those of the paths.
void session::add_reasons_since(measurement& m, const path_reasons& before) {
  m.reasons = reasons_since(before, count_all_reasons());
  add_reasons(m.reasons, oob_.exchange(m.reasons).get<path_reasons>());
}

// Of both sides together.
void session::add_paths(measurement& m, const std::vector<path_bytes>& before) {
  std::vector<path_bytes> moved = count_all_paths();
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = moved[i] - before[i];
  const auto of_peer = oob_.exchange(moved).get<std::vector<path_bytes>>();
  path_bytes all;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    moved[i] += of_peer.at(i);
    all += moved[i];
    if (!m.pairs.empty()) m.pairs[i].path = path_of(moved[i]);
  }
  m.path = path_of(all);
}

}  // namespace gaudi::perf
