// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The rules of matching, one by one.
#include "proto/match/match_queue.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace gaudi::proto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;

struct receive : posted_hook {
  receive(uint32_t from, uint64_t with_tag, uint64_t with_ignore = 0) {
    source = from;
    tag = with_tag;
    ignore = with_ignore;
  }
};

struct message : arrived_hook {
  message(uint32_t from, uint64_t with_tag) {
    source = from;
    tag = with_tag;
  }
};

class match_queue_rules : public ::testing::Test {
 protected:
  void post(std::initializer_list<posted_hook*> receives) {
    for (posted_hook* r : receives) queue.post(*r);
  }
  void add(std::initializer_list<arrived_hook*> messages) {
    for (arrived_hook* m : messages) queue.add_arrival(*m);
  }
  std::vector<posted_hook*> posted() {
    std::vector<posted_hook*> all;
    queue.for_each_posted([&](posted_hook& r) { all.push_back(&r); });
    return all;
  }
  std::vector<arrived_hook*> arrived() {
    std::vector<arrived_hook*> all;
    queue.for_each_arrived([&](arrived_hook& m) { all.push_back(&m); });
    return all;
  }

  match_queue queue;
};

TEST_F(match_queue_rules, an_empty_queue_matches_nothing) {
  EXPECT_THAT(queue.match_arrival(0, 0), IsNull());
  EXPECT_THAT(queue.find_arrival(any_source, 0, ~uint64_t{0}), IsNull());
  EXPECT_EQ(queue.posted_count(), 0u);
  EXPECT_EQ(queue.arrived_count(), 0u);
}

TEST_F(match_queue_rules, an_exact_receive_needs_source_and_tag) {
  receive r(3, 7);
  queue.post(r);
  EXPECT_THAT(queue.match_arrival(3, 8), IsNull());
  EXPECT_THAT(queue.match_arrival(4, 7), IsNull());
  EXPECT_EQ(queue.match_arrival(3, 7), &r);
}

TEST_F(match_queue_rules, a_match_takes_the_receive_out) {
  receive r(3, 7);
  queue.post(r);
  EXPECT_EQ(queue.posted_count(), 1u);
  EXPECT_EQ(queue.match_arrival(3, 7), &r);
  EXPECT_EQ(queue.posted_count(), 0u);
  EXPECT_THAT(queue.match_arrival(3, 7), IsNull());
}

TEST_F(match_queue_rules, any_source_takes_from_every_peer_but_only_its_tag) {
  receive r(any_source, 7);
  queue.post(r);
  EXPECT_THAT(queue.match_arrival(3, 8), IsNull());
  EXPECT_EQ(queue.match_arrival(3, 7), &r);
}

TEST_F(match_queue_rules, ignored_bits_do_not_count_and_the_others_do) {
  receive r(3, 0xab00, 0x00ff);
  queue.post(r);
  EXPECT_THAT(queue.match_arrival(3, 0xac12), IsNull());
  EXPECT_THAT(queue.match_arrival(2, 0xab12), IsNull());
  EXPECT_EQ(queue.match_arrival(3, 0xab12), &r);
}

TEST_F(match_queue_rules, bits_set_in_both_tag_and_ignore_do_not_count) {
  receive r(3, 0xabcd, 0x00ff);
  queue.post(r);
  EXPECT_EQ(queue.match_arrival(3, 0xab00), &r);
}

TEST_F(match_queue_rules, all_64_bits_of_a_tag_count) {
  receive high(1, uint64_t{1} << 63);
  receive low(1, 1);
  post({&high, &low});
  EXPECT_THAT(queue.match_arrival(1, 0), IsNull());
  EXPECT_EQ(queue.match_arrival(1, 1), &low);
  EXPECT_EQ(queue.match_arrival(1, uint64_t{1} << 63), &high);
}

TEST_F(match_queue_rules, receives_of_one_key_match_in_posting_order) {
  receive a(1, 5), b(1, 5), c(1, 5);
  post({&a, &b, &c});
  EXPECT_EQ(queue.match_arrival(1, 5), &a);
  EXPECT_EQ(queue.match_arrival(1, 5), &b);
  EXPECT_EQ(queue.match_arrival(1, 5), &c);
}

TEST_F(match_queue_rules, posting_order_holds_across_every_kind_of_receive) {
  receive masked_any(any_source, 0, ~uint64_t{0}), exact(1, 5), masked(1, 4, 1), any(any_source, 5),
      exact_again(1, 5);
  std::vector<posted_hook*> order{&exact, &any, &masked, &exact_again, &masked_any};
  std::sort(order.begin(), order.end());
  do {
    for (posted_hook* r : order) queue.post(*r);
    for (posted_hook* r : order) ASSERT_EQ(queue.match_arrival(1, 5), r);
    ASSERT_EQ(queue.posted_count(), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(match_queue_rules, a_cancelled_receive_is_passed_over) {
  receive a(1, 5), b(1, 5), c(1, 5), w(1, 4, 1), v(1, 4, 1);
  post({&a, &b, &c, &w, &v});
  queue.remove(b);
  queue.remove(a);
  queue.remove(w);
  EXPECT_THAT(posted(), ElementsAre(&c, &v));
  EXPECT_EQ(queue.match_arrival(1, 5), &c);
  EXPECT_EQ(queue.match_arrival(1, 5), &v);
  EXPECT_THAT(queue.match_arrival(1, 5), IsNull());
}

TEST_F(match_queue_rules, a_receive_can_be_posted_again) {
  receive a(1, 5), b(1, 5);
  post({&a, &b});
  queue.remove(a);
  queue.post(a);
  EXPECT_EQ(queue.match_arrival(1, 5), &b);
  EXPECT_EQ(queue.match_arrival(1, 5), &a);
}

TEST_F(match_queue_rules, finds_the_earliest_message_for_each_kind_of_receive) {
  message first(2, 6), second(1, 5), third(1, 6), fourth(1, 5);
  add({&first, &second, &third, &fourth});
  EXPECT_EQ(queue.find_arrival(1, 5, 0), &second);
  EXPECT_EQ(queue.find_arrival(1, 6, 0), &third);
  EXPECT_EQ(queue.find_arrival(any_source, 6, 0), &first);
  EXPECT_EQ(queue.find_arrival(any_source, 5, 0), &second);
  EXPECT_EQ(queue.find_arrival(1, 6, 3), &second);
  EXPECT_EQ(queue.find_arrival(any_source, 0, ~uint64_t{0}), &first);
  EXPECT_EQ(queue.find_arrival(1, 0xff06, 0xff00), &third);
  EXPECT_THAT(queue.find_arrival(2, 5, 0), IsNull());
  EXPECT_THAT(queue.find_arrival(any_source, 8, 3), IsNull());
  EXPECT_THAT(queue.find_arrival(9, 0, ~uint64_t{0}), IsNull());
}

TEST_F(match_queue_rules, finding_leaves_a_message_and_removing_takes_it) {
  message a(1, 5), b(1, 5);
  add({&a, &b});
  EXPECT_EQ(queue.find_arrival(1, 5, 0), &a);
  EXPECT_EQ(queue.find_arrival(1, 5, 0), &a);
  EXPECT_EQ(queue.arrived_count(), 2u);
  queue.remove(a);
  EXPECT_EQ(queue.find_arrival(1, 5, 0), &b);
  EXPECT_EQ(queue.find_arrival(any_source, 5, 0), &b);
  EXPECT_EQ(queue.find_arrival(1, 0, 7), &b);
  EXPECT_THAT(arrived(), ElementsAre(&b));
  queue.remove(b);
  EXPECT_THAT(queue.find_arrival(any_source, 5, 0), IsNull());
  EXPECT_EQ(queue.arrived_count(), 0u);
}

TEST_F(match_queue_rules, untagged_traffic_is_first_in_first_out) {
  receive directed(1, 0), a(any_source, 0), b(any_source, 0);
  post({&a, &directed, &b});
  EXPECT_EQ(queue.match_arrival(2, 0), &a);
  EXPECT_EQ(queue.match_arrival(2, 0), &b);
  EXPECT_THAT(queue.match_arrival(2, 0), IsNull());
  EXPECT_EQ(queue.match_arrival(1, 0), &directed);

  message m(2, 0), n(1, 0);
  add({&m, &n});
  EXPECT_EQ(queue.find_arrival(any_source, 0, 0), &m);
  EXPECT_EQ(queue.find_arrival(1, 0, 0), &n);
}

TEST_F(match_queue_rules, visits_receives_in_posting_order_and_survives_their_removal) {
  receive a(1, 5), b(any_source, 5), c(1, 4, 1), d(2, 9);
  post({&d, &c, &b, &a});
  EXPECT_THAT(posted(), ElementsAre(&d, &c, &b, &a));
  queue.for_each_posted([&](posted_hook& r) { queue.remove(r); });
  EXPECT_EQ(queue.posted_count(), 0u);
  EXPECT_THAT(posted(), ElementsAre());
}

TEST_F(match_queue_rules, visits_messages_in_arrival_order_and_survives_their_removal) {
  message a(1, 5), b(2, 5), c(1, 4);
  add({&c, &b, &a});
  EXPECT_THAT(arrived(), ElementsAre(&c, &b, &a));
  queue.for_each_arrived([&](arrived_hook& m) { queue.remove(m); });
  EXPECT_EQ(queue.arrived_count(), 0u);
}

TEST_F(match_queue_rules, finds_the_first_posted_receive_that_is_wanted) {
  receive a(1, 5), b(2, 6), c(2, 6);
  post({&a, &b, &c});
  const auto from_two = [](const posted_hook& r) { return r.source == 2; };
  EXPECT_EQ(queue.find_posted(from_two), &b);
  EXPECT_THAT(queue.find_posted([](const posted_hook&) { return false; }), IsNull());
}

TEST_F(match_queue_rules, reserving_keeps_what_is_queued) {
  receive a(1, 5), b(1, 5);
  message m(2, 6);
  post({&a, &b});
  add({&m});
  queue.reserve(100'000);
  EXPECT_EQ(queue.match_arrival(1, 5), &a);
  EXPECT_EQ(queue.match_arrival(1, 5), &b);
  EXPECT_EQ(queue.find_arrival(2, 6, 0), &m);
}

}  // namespace
}  // namespace gaudi::proto
