// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Random operations on the matching queue and on a model that is right by inspection: two vectors
// in order of posting and of arrival, searched from the front.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "proto/match/match_queue.hpp"

namespace gaudi::proto {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool slow_build = true;
#elif defined(__has_feature)
constexpr bool slow_build = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool slow_build = false;
#endif

bool fits(uint32_t wanted_source, uint64_t wanted_tag, uint64_t ignore, uint32_t source,
          uint64_t tag) {
  return (wanted_source == any_source || wanted_source == source) &&
         (wanted_tag & ~ignore) == (tag & ~ignore);
}

struct model {
  std::vector<posted_hook*> posted;
  std::vector<arrived_hook*> arrived;

  posted_hook* match_arrival(uint32_t source, uint64_t tag) {
    const auto it = std::find_if(posted.begin(), posted.end(), [&](const posted_hook* r) {
      return fits(r->source, r->tag, r->ignore, source, tag);
    });
    if (it == posted.end()) return nullptr;
    posted_hook* found = *it;
    posted.erase(it);
    return found;
  }

  arrived_hook* find_arrival(uint32_t source, uint64_t tag, uint64_t ignore) const {
    const auto it = std::find_if(arrived.begin(), arrived.end(), [&](const arrived_hook* m) {
      return fits(source, tag, ignore, m->source, m->tag);
    });
    return it == arrived.end() ? nullptr : *it;
  }
};

/// One run's traffic. Few tags and sources make receives compete; many make the tables grow.
struct traffic {
  unsigned tags;
  unsigned sources;
  unsigned tag_shift;    ///< Where in the tag the number stands.
  unsigned any_percent;  ///< Receives from any source.
  unsigned masked_percent;
  std::size_t depth;  ///< Above it, nothing more is queued.
  bool endpoint;      ///< As an endpoint does: a receive is posted only if no message waits for it.
};

class random_run {
 public:
  random_run(const traffic& t, unsigned seed) : traffic_(t), random_(seed) {}

  void step() {
    const unsigned what = below(16);
    if (what < 6) return receive();
    if (what < 12) return arrive();
    if (what == 12) return cancel();
    if (what == 13) return drop();
    peek();
  }

  void check_everything() {
    std::vector<posted_hook*> posted;
    std::vector<arrived_hook*> arrived;
    queue_.for_each_posted([&](posted_hook& r) { posted.push_back(&r); });
    queue_.for_each_arrived([&](arrived_hook& m) { arrived.push_back(&m); });
    ASSERT_EQ(posted, model_.posted);
    ASSERT_EQ(arrived, model_.arrived);
    ASSERT_EQ(queue_.posted_count(), posted.size());
    ASSERT_EQ(queue_.arrived_count(), arrived.size());
  }

  std::size_t matches() const { return matches_; }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool chance(unsigned percent) { return below(100) < percent; }
  uint64_t some_tag() { return uint64_t{below(traffic_.tags)} << traffic_.tag_shift; }
  uint32_t some_source() {
    return chance(traffic_.any_percent) ? any_source : below(traffic_.sources);
  }
  uint64_t some_ignore() {
    if (!chance(traffic_.masked_percent)) return 0;
    if (chance(20)) return ~uint64_t{0};
    return uint64_t{1 + below(7)} << traffic_.tag_shift;
  }

  void receive() {
    const uint32_t source = some_source();
    const uint64_t tag = some_tag(), ignore = some_ignore();
    if (traffic_.endpoint) {
      arrived_hook* waiting = queue_.find_arrival(source, tag, ignore);
      ASSERT_EQ(waiting, model_.find_arrival(source, tag, ignore));
      if (waiting) return take(*waiting);
    }
    if (model_.posted.size() == traffic_.depth) return;
    posted_hook& r = fresh(posted_pool_, free_posted_);
    r.source = source;
    r.tag = tag;
    r.ignore = ignore;
    queue_.post(r);
    model_.posted.push_back(&r);
  }

  void arrive() {
    const uint32_t source = below(traffic_.sources);
    const uint64_t tag = some_tag();
    posted_hook* attacher = queue_.match_arrival(source, tag);
    ASSERT_EQ(attacher, model_.match_arrival(source, tag));
    if (attacher) {
      ++matches_;
      return free_posted_.push_back(attacher);
    }
    if (model_.arrived.size() == traffic_.depth) return;
    arrived_hook& m = fresh(arrived_pool_, free_arrived_);
    m.source = source;
    m.tag = tag;
    queue_.add_arrival(m);
    model_.arrived.push_back(&m);
  }

  void peek() {
    const uint32_t source = some_source();
    const uint64_t tag = some_tag(), ignore = some_ignore();
    arrived_hook* found = queue_.find_arrival(source, tag, ignore);
    ASSERT_EQ(found, model_.find_arrival(source, tag, ignore));
    if (found && chance(50)) take(*found);
  }

  void cancel() {
    if (model_.posted.empty()) return;
    const auto it = model_.posted.begin() + below(static_cast<unsigned>(model_.posted.size()));
    ASSERT_EQ(queue_.find_posted([&](const posted_hook& r) { return &r == *it; }), *it);
    queue_.remove(**it);
    free_posted_.push_back(*it);
    model_.posted.erase(it);
  }

  void drop() {
    if (model_.arrived.empty()) return;
    take(*model_.arrived[below(static_cast<unsigned>(model_.arrived.size()))]);
  }

  void take(arrived_hook& m) {
    ++matches_;
    queue_.remove(m);
    free_arrived_.push_back(&m);
    model_.arrived.erase(std::find(model_.arrived.begin(), model_.arrived.end(), &m));
  }

  // Items are used again, as a pool's are, so that links of an earlier stay do no harm.
  template <class Item>
  static Item& fresh(std::vector<std::unique_ptr<Item>>& pool, std::vector<Item*>& unused) {
    if (unused.empty()) {
      pool.push_back(std::make_unique<Item>());
      return *pool.back();
    }
    Item& item = *unused.back();
    unused.pop_back();
    return item;
  }

  const traffic traffic_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<posted_hook>> posted_pool_;
  std::vector<std::unique_ptr<arrived_hook>> arrived_pool_;
  std::vector<posted_hook*> free_posted_;
  std::vector<arrived_hook*> free_arrived_;
  model model_;
  match_queue queue_;
  std::size_t matches_ = 0;
};

class match_queue_model : public ::testing::TestWithParam<traffic> {};

TEST_P(match_queue_model, agrees_on_random_operations) {
  constexpr unsigned seeds = slow_build ? 4 : 20;
  constexpr unsigned steps = slow_build ? 5'000 : 10'000;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    random_run run(GetParam(), seed);
    for (unsigned i = 0; i != steps; ++i) {
      ASSERT_NO_FATAL_FAILURE(run.step()) << "step " << i;
      if (i % 512 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(run.check_everything()) << "step " << i;
    }
    run.check_everything();
    EXPECT_GT(run.matches(), steps / 100) << "the traffic hardly ever matches: it tests nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(
    traffic, match_queue_model,
    ::testing::Values(traffic{1, 1, 0, 50, 0, 64, true},        // untagged
                      traffic{2, 2, 0, 30, 30, 64, true},       // everything competes
                      traffic{2, 2, 0, 30, 30, 64, false},      //
                      traffic{8, 4, 0, 0, 0, 200, true},        // exact only
                      traffic{8, 4, 0, 50, 0, 200, false},      // exact and any source
                      traffic{8, 4, 61, 20, 20, 200, true},     // the uppermost bits of the tag
                      traffic{16, 8, 32, 10, 50, 200, false},   // mostly masked
                      traffic{64, 16, 16, 20, 10, 400, true},   // tables grow
                      traffic{512, 2, 40, 20, 2, 700, false},   //
                      traffic{3, 300, 0, 40, 10, 400, true}));  // many peers

}  // namespace
}  // namespace gaudi::proto
