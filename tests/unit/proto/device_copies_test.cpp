// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies of one endpoint: which of them the engine is given together, and whom their ends concern.
#include "proto/operation/device_copies.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "../reg/looping_nic.hpp"
#include "device_by_hand.hpp"
#include "endpoint_node.hpp"
#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {
namespace {

using copy::direction;

constexpr std::size_t copied_page = 40'000;
constexpr std::size_t longest_of_several = 65536;

class copies_by_hand : public testing::Test, protected device_copies::observer {
 protected:
  ~copies_by_hand() override {
    dev_.engine.finish_all();
    copies_.end_all();
  }

  buffer& start(direction dir, std::size_t length = copied_page) {
    buffer* const b = pool_.acquire();
    b->copies = 0;
    b->failed = 0;
    EXPECT_EQ(copies_.start(*b, 0, dev_.part(length), 0, length, dir), 0);
    EXPECT_EQ(b->copies, 1U);
    return *b;
  }
  std::vector<buffer*> start(unsigned count, direction dir = direction::device_to_host) {
    std::vector<buffer*> all;
    for (unsigned i = 0; i < count; ++i) all.push_back(&start(dir));
    return all;
  }
  /// How many parts each submission so far has.
  std::vector<std::size_t> submitted() const {
    std::vector<std::size_t> parts;
    for (const auto& s : dev_.engine.submitted) parts.push_back(s.packets.size());
    return parts;
  }
  void finish(hl::cs_status how = hl::cs_status::completed) { dev_.engine.finish_all(how); }
  void poll_until_told(std::size_t count) {
    for (int i = 0; i < 100 && told_.size() < count; ++i) {
      copies_.poll();
      finish();
    }
    EXPECT_EQ(told_.size(), count);
  }

  void copied(buffer& b) noexcept override { told_.push_back(&b); }

  static copy::engine_config unmeasured() {
    copy::engine_config config;
    config.table.calibrate = false;
    return config;
  }

  using sizes = std::vector<std::size_t>;
  test::device_by_hand dev_;
  std::unique_ptr<core::inner_domain> core_ = test::loopback_domain();
  buffer_pool pool_{*core_, posted_op::kind::chunk, 128 * 1024, 16, 64};
  latency_sampler latencies_{{}, nullptr};
  device_copies copies_{{.engines = unmeasured()}, latencies_, *this};
  std::vector<buffer*> told_;
};

TEST_F(copies_by_hand, go_at_once_where_the_engine_has_none) {
  start(direction::device_to_host);
  EXPECT_EQ(submitted(), (sizes{1}));
}

TEST_F(copies_by_hand, go_together_where_the_engine_has_some) {
  const auto all = start(6);
  EXPECT_EQ(submitted(), (sizes{1}));
  copies_.poll();
  ASSERT_EQ(submitted(), (sizes{1, 5}));
  for (std::size_t i = 0; i < 5; ++i) {
    const hl::lin_dma& packet = dev_.engine.submitted[1].packets[i];
    EXPECT_EQ(packet.src, dev_.memory.address);
    EXPECT_EQ(packet.dst, reinterpret_cast<std::uint64_t>(all[i + 1]->bytes));
    EXPECT_EQ(packet.size, copied_page);
  }
  copies_.poll();
  EXPECT_TRUE(told_.empty());
  finish();
  copies_.poll();
  EXPECT_EQ(told_, all) << "each once, in their order";
  EXPECT_FALSE(copies_.any());
}

TEST_F(copies_by_hand, have_one_look_for_all_that_went_together) {
  start(6);
  copies_.poll();
  finish();
  EXPECT_CALL(dev_.engine.driver.library,
              wait_for_cs(testing::_, testing::_, testing::_, testing::_))
      .Times(2);
  copies_.poll();
  EXPECT_EQ(told_.size(), 6U);
}

TEST_F(copies_by_hand, have_one_look_while_they_are_under_way) {
  start(6);
  copies_.poll();
  dev_.engine.states[1] = hl::cs_status::completed;
  EXPECT_CALL(dev_.engine.driver.library,
              wait_for_cs(testing::_, testing::_, testing::_, testing::_))
      .Times(2);
  copies_.poll();
  testing::Mock::VerifyAndClearExpectations(&dev_.engine.driver.library);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(copies_by_hand, go_alone_where_they_are_long) {
  start(direction::device_to_host, longest_of_several + 1);
  start(direction::device_to_host, longest_of_several + 1);
  EXPECT_EQ(submitted(), (sizes{1, 1}));
  start(direction::device_to_host, longest_of_several);
  EXPECT_EQ(submitted(), (sizes{1, 1}));
}

// A batch is over in some microseconds.
TEST_F(copies_by_hand, go_together_up_to_a_limit) {
  start(21);
  copies_.poll();
  EXPECT_EQ(submitted(), (sizes{1, 13, 7}));
  poll_until_told(21);
  start(direction::device_to_host, 1);
  for (int i = 0; i < 40; ++i) start(direction::device_to_host, 1);
  copies_.poll();
  EXPECT_EQ(submitted(), (sizes{1, 13, 7, 1, 16, 16, 8}));
  poll_until_told(21 + 41);
}

TEST_F(copies_by_hand, go_with_those_of_their_direction) {
  start(2);
  start(2, direction::host_to_device);
  start(1);
  copies_.poll();
  EXPECT_EQ(submitted(), (sizes{1, 1, 2, 1}));
  poll_until_told(5);
}

TEST_F(copies_by_hand, fail_together) {
  const auto all = start(4);
  copies_.poll();
  finish(hl::cs_status::aborted);
  copies_.poll();
  EXPECT_EQ(told_, all);
  for (const buffer* b : all) EXPECT_EQ(b->failed, -FI_EIO);
}

TEST_F(copies_by_hand, are_given_alone_to_who_waits_for_one) {
  const auto all = start(4);
  EXPECT_EQ(copies_.wait_for(*all[2]), 0);
  EXPECT_EQ(submitted(), (sizes{1, 1}));
  EXPECT_EQ(all[2]->copies, 0U);
  poll_until_told(3);
  EXPECT_EQ(told_, (std::vector<buffer*>{all[0], all[1], all[3]}));
}

TEST_F(copies_by_hand, are_told_of_where_another_one_of_them_was_waited_for) {
  const auto all = start(4);
  copies_.poll();
  ASSERT_EQ(submitted(), (sizes{1, 3}));
  EXPECT_EQ(copies_.wait_for(*all[2]), 0);
  copies_.poll();
  EXPECT_EQ(told_, (std::vector<buffer*>{all[0], all[1], all[3]}));
  for (const buffer* b : all) EXPECT_EQ(b->failed, 0);
  EXPECT_EQ(submitted(), (sizes{1, 3}));
}

TEST_F(copies_by_hand, that_wait_are_dropped_at_the_end) {
  start(4);
  copies_.end_all();
  EXPECT_FALSE(copies_.any());
  EXPECT_EQ(submitted(), (sizes{1}));
  copies_.poll();
  EXPECT_TRUE(told_.empty());
}

TEST_F(copies_by_hand, of_a_region_are_over_before_it_goes) {
  start(4);
  copies_.finish_those_of(dev_.memory);
  EXPECT_EQ(submitted(), (sizes{1, 1, 1, 1}));
  poll_until_told(4);
}

// A message may be shorter than the memory that it comes to.
TEST_F(copies_by_hand, that_the_nic_makes_end_with_the_message) {
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop(nic.core());
  device_copies by_nic({.engines = unmeasured(), .loop = &loop, .short_by_nic = true}, latencies_,
                       *this);
  buffer* const from = pool_.acquire();
  std::fill_n(from->bytes, 100, std::byte{'x'});
  std::string room(40, '.');
  const std::array<iovec, 3> parts{{{room.data(), 4}, {&room[10], 10}, {&room[30], 10}}};
  ASSERT_TRUE(by_nic.bring_short(*from, 1, test::memory_of(parts), 6));
  EXPECT_EQ(room, "xxxx......xx" + std::string(28, '.'));
}

}  // namespace
}  // namespace gaudi::proto
