// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many pages that are posted at once and lie in another order at each end, as a cache of attention
// keys and values does that is fetched block by block.
#include "pages.hpp"

#include <array>
#include <numeric>

#include "session.hpp"

namespace gaudi::perf {
namespace {

// So many at a time are announced with FI_MORE (NIXL 1.4.0, NIXL_LIBFABRIC_FI_MORE_BATCH_SIZE).
constexpr std::size_t batch = 16;

constexpr unsigned local_turn = 0;
constexpr unsigned remote_turn = 1;

// Where the page is. Whoever acts has pages in its own order, the other end in that of the target.
std::size_t place_of_page(const step& s, std::size_t page, bool acts) {
  return scattered_order(s.pages, acts ? local_turn : remote_turn)[page] * s.size;
}

}  // namespace

scattered_order::scattered_order(std::size_t count, unsigned turn) noexcept
    : count_(count), stride_(1) {
  constexpr std::array<std::size_t, 6> primes{7919, 6101, 4447, 2741, 1009, 101};
  for (std::size_t i = 0; i < primes.size() && stride_ == 1; ++i) {
    const std::size_t prime = primes[(i + turn) % primes.size()];
    if (std::gcd(prime, count) == 1) stride_ = prime;
  }
}

bool more_follow(std::size_t page, std::size_t pages) noexcept {
  return (page + 1) % batch != 0 && page + 1 != pages;
}

void session::post_page(const step& s, std::size_t page, ticket& done) {
  const auto post = [&] {
    return pairs_.front()->post_rma(s, place_of_page(s, page, true), place_of_page(s, page, false),
                                    done, more_follow(page, s.pages));
  };
  crew_->wait_until(crew_->own(), post, name_of(s.op));
}

void session::wait(const ticket& t, const step& s) {
  crew_->wait_until(
      crew_->own(), [&t] { return !t.busy(); }, name_of(s.op));
}

double session::page_batch(const step& s, std::uint64_t turn, std::vector<ticket>& tickets) {
  pair& one = *pairs_.front();
  const bool i_receive = client_ == (s.op == operation::read);
  const std::uint64_t first = turn * s.pages;
  if (s.check && !i_receive) {
    for (std::size_t page = 0; page < s.pages; ++page)
      one.fill(s, phase::stream, first + page, place_of_page(s, page, client_));
  }
  oob_.barrier();
  const common::stopwatch watch;
  if (client_) {
    for (std::size_t page = 0; page < s.pages; ++page) post_page(s, page, tickets[page]);
    for (const ticket& t : tickets) wait(t, s);
  }
  const double elapsed = watch.microseconds();
  oob_.barrier();
  if (s.check && i_receive) {
    for (std::size_t page = 0; page < s.pages; ++page)
      one.verify(s, phase::stream, first + page, place_of_page(s, page, client_));
  }
  return elapsed;
}

double session::one_piece(const step& s) {
  step whole = s;
  whole.size = s.size * s.pages;
  ticket done;
  oob_.barrier();
  const common::stopwatch watch;
  if (client_) {
    const auto post = [&] { return pairs_.front()->post_rma(whole, 0, 0, done); };
    crew_->wait_until(crew_->own(), post, name_of(s.op));
    wait(done, s);
  }
  const double elapsed = watch.microseconds();
  oob_.barrier();
  return elapsed;
}

// Batches and single operations of the same bytes take turns, so that a noisy minute hits both.
measurement session::run_pages(const step& s) {
  measurement result;
  result.size = s.size;
  result.iterations = s.iterations;
  std::vector<ticket> tickets(client_ ? s.pages : 0);
  for (std::uint64_t i = 0; i < s.warmup; ++i) {
    page_batch(s, i, tickets);
    one_piece(s);
  }
  const std::uint64_t refused = first_endpoint().refused();
  std::vector<double> times;
  double whole = 0;
  for (std::uint64_t i = 0; i < s.iterations; ++i) {
    times.push_back(page_batch(s, i, tickets));
    whole += one_piece(s);
  }
  const double elapsed = std::accumulate(times.begin(), times.end(), 0.0);
  const auto pages = static_cast<double>(s.iterations * s.pages);
  result.latency = common::summarise(std::move(times));
  result.messages_per_second = pages / elapsed * 1e6;
  result.megabytes_per_second = pages * static_cast<double>(s.size) / elapsed;
  result.of_one_piece = whole / elapsed;
  result.refused_per_page = static_cast<double>(first_endpoint().refused() - refused) / pages;
  return result;
}

}  // namespace gaudi::perf
