// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/grant_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "proto/operation/transfer.hpp"
#include "proto/peer/peer.hpp"

namespace gaudi::proto {
namespace {

// Whose slots they are is only compared.
const auto* slots_of(std::uintptr_t n) {
  return reinterpret_cast<const shared_slots*>(0x1000 * n);  // NOLINT(performance-no-int-to-ptr)
}
const auto* connection_of(std::uintptr_t n) {
  return reinterpret_cast<const connection*>(0x1000 * n);  // NOLINT(performance-no-int-to-ptr)
}

class waiting_transfers : public testing::Test {
 protected:
  transfer& add(std::uintptr_t connection, const shared_slots* from = nullptr) {
    transfer& t = *all_.emplace_back(std::make_unique<transfer>());
    queue_.add(t, *connection_of(connection), from);
    return t;
  }
  // To whom so many slots went, each of which is all that a transfer wants.
  std::vector<const transfer*> serve(std::size_t slots, const shared_slots* from = nullptr) {
    std::vector<const transfer*> served;
    queue_.serve(from, [&](transfer& t) {
      ++asked_;
      if (served.size() == slots) return false;
      served.push_back(&t);
      return true;
    });
    return served;
  }

  grant_queue queue_;
  std::size_t asked_ = 0;
  std::vector<std::unique_ptr<transfer>> all_;
};

using list = std::vector<const transfer*>;

TEST_F(waiting_transfers, of_a_connection_are_served_in_their_order) {
  const transfer& first = add(1);
  const transfer& second = add(1);
  const transfer& third = add(1);
  EXPECT_EQ(serve(2), (list{&first, &second}));
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(serve(9), (list{&third}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(waiting_transfers, of_connections_take_turns) {
  const transfer& first = add(1);
  const transfer& behind_it = add(1);
  const transfer& of_another = add(2);
  EXPECT_EQ(serve(1), (list{&first}));
  EXPECT_EQ(serve(1), (list{&of_another})) << "the one that has had none for longer";
  EXPECT_EQ(serve(1), (list{&behind_it}));
}

TEST_F(waiting_transfers, are_not_all_asked_where_the_first_gets_nothing) {
  constexpr std::size_t many = 1000;
  for (std::size_t i = 0; i < many; ++i) add(1);
  for (std::size_t i = 0; i < many; ++i) add(2);
  EXPECT_TRUE(serve(0).empty());
  EXPECT_EQ(asked_, 2U) << "one of each connection";
  EXPECT_EQ(queue_.size(), 2 * many);
}

// A peer whose quota is used up is no reason to keep another from its own.
TEST_F(waiting_transfers, of_one_connection_do_not_hold_up_those_of_others) {
  const transfer& refused = add(1);
  add(2);
  add(2);
  std::size_t served = 0;
  queue_.serve(nullptr, [&](const transfer& t) {
    served += &t != &refused;
    return &t != &refused;
  });
  EXPECT_EQ(served, 2U);
  EXPECT_EQ(queue_.size(), 1U);
}

// One that has got some, but not all that it wants, is still the first.
TEST_F(waiting_transfers, keep_their_place_until_they_have_all) {
  const transfer& greedy = add(1);
  const transfer& next = add(2);
  std::size_t got = 0;
  const auto give_one = [&](std::size_t slots) {
    std::vector<const transfer*> asked;
    queue_.serve(nullptr, [&](const transfer& t) {
      asked.push_back(&t);
      if (slots == 0) return false;
      --slots;
      return &t != &greedy || ++got == 2;
    });
    return asked;
  };
  EXPECT_EQ(give_one(1), (list{&greedy, &next}));
  EXPECT_EQ(give_one(1), (list{&greedy, &next}));
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(serve(1), (list{&next}));
}

TEST_F(waiting_transfers, want_slots_of_their_own_kind) {
  const transfer& private_ones = add(1);
  const transfer& shared_ones = add(1, slots_of(1));
  const transfer& of_another_peer = add(2, slots_of(2));
  EXPECT_EQ(serve(9, slots_of(2)), (list{&of_another_peer}));
  EXPECT_EQ(serve(9), (list{&private_ones}));
  EXPECT_EQ(serve(9, slots_of(1)), (list{&shared_ones}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(waiting_transfers, can_go_wherever_they_are) {
  std::array<transfer*, 3> ours{&add(1), &add(1), &add(1)};
  const transfer& other = add(2);
  queue_.remove(*ours[1]);
  queue_.remove(*ours[1]);
  EXPECT_EQ(queue_.size(), 3U);
  queue_.remove(other);
  EXPECT_EQ(serve(9), (list{ours[0], ours[2]}));
}

}  // namespace
}  // namespace gaudi::proto
