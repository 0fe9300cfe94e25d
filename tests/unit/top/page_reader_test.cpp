// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "page_reader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/counters_page.hpp"
#include "crafted_page.hpp"

namespace gaudi::top {
namespace {

using base::counters::block_state;
using test::crafted_page;

std::string error_of(crafted_page& p) {
  return parse_page(p.bytes()).error;
}

TEST(page_reader, reads_what_a_process_writes) {
  base::counters::page written(true);
  const base::counters::published<value_list> counted({block_kind::domain, "nic0", "verbs", -1},
                                                      written);
  const base::counters::published<value_list> device(
      {block_kind::device, "Gaudi2", "0000:33:00.0", 3}, written);
  (*const_cast<base::counters::published<value_list>&>(
      counted))[place_of(block_kind::domain, "direct_bytes")] = 77;
  const auto read = read_page(written.fd());
  ASSERT_TRUE(read.found) << read.error;
  EXPECT_EQ(read.found->pid, ::getpid());
  EXPECT_EQ(read.found->start_time, written.header()->start_time);
  EXPECT_FALSE(read.found->is_changing);
  ASSERT_EQ(read.found->subjects.size(), 2U);
  EXPECT_EQ(read.found->subjects[0].name, "nic0");
  EXPECT_EQ(read.found->subjects[0].detail, "verbs");
  EXPECT_EQ(get(read.found->subjects[0].values, "direct_bytes"), 77U);
  EXPECT_EQ(read.found->subjects[1].number, 3);
}

TEST(page_reader, adds_up_closed_and_open_ones_of_a_name) {
  crafted_page p;
  p.add(0, block_kind::domain, "nic0", "tcp").values[16] = 5;
  p.add(3, block_kind::domain, "nic0", "tcp").values[16] = 7;
  p.block(0).head.state = block_state::closed;
  p.add(4, block_kind::domain, "nic0", "verbs").values[16] = 1;
  const auto read = parse_page(p.bytes());
  ASSERT_TRUE(read.found) << read.error;
  ASSERT_EQ(read.found->subjects.size(), 2U);
  EXPECT_EQ(read.found->subjects[0].values[16], 12U);
  EXPECT_EQ(read.found->subjects[1].values[16], 1U);
}

TEST(page_reader, refuses_what_is_too_short) {
  const crafted_page p;
  for (const std::size_t size : {0U, 8U, 87U})
    EXPECT_FALSE(parse_page(p.bytes().first(size)).found) << size;
  // Its header is there, and says that there is more.
  EXPECT_FALSE(parse_page(p.bytes().first(base::counters::page_size - 1)).found);
}

TEST(page_reader, refuses_another_magic_or_version_and_says_which) {
  crafted_page p;
  p.header().version = 9;
  EXPECT_EQ(error_of(p), "the page has layout version 9, this tool knows 1");
  p.header().version = 0;
  EXPECT_EQ(error_of(p), "the page is just being made");
  p.header().magic[0] = 'X';
  EXPECT_EQ(error_of(p), "not a counters page");
}

TEST(page_reader, refuses_sizes_that_lead_outside) {
  const auto refuses = [](auto change) {
    crafted_page p;
    change(p.header());
    return error_of(p) == "the page's sizes contradict each other";
  };
  using header = base::counters::page_header;
  EXPECT_TRUE(refuses([](header& h) { h.page_size = UINT64_MAX; }));
  EXPECT_TRUE(refuses([](header& h) { h.page_size = 0; }));
  EXPECT_TRUE(refuses([](header& h) { h.header_size = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](header& h) { h.header_size = 8; }));
  EXPECT_TRUE(refuses([](header& h) { h.block_count = UINT32_MAX; }));
  EXPECT_TRUE(refuses([](header& h) { ++h.block_count; }));
  EXPECT_TRUE(refuses([](header& h) { h.block_size = 0; }));
  EXPECT_TRUE(refuses([](header& h) { h.block_size = 128; }));
  EXPECT_TRUE(refuses([](header& h) { h.block_size = UINT32_MAX - 7; }));
  EXPECT_TRUE(refuses([](header& h) { h.block_size = 509; }));
}

TEST(page_reader, believes_no_count_of_values) {
  crafted_page p;
  p.add(base::counters::block_count - 1, block_kind::device, "last").head.value_count = UINT32_MAX;
  auto read = parse_page(p.bytes());
  ASSERT_TRUE(read.found) << read.error;
  EXPECT_EQ(read.found->subjects.size(), 1U);
  p.block(base::counters::block_count - 1).head.value_count = 0;
  p.block(base::counters::block_count - 1).values[0] = 4;
  read = parse_page(p.bytes());
  EXPECT_EQ(read.found->subjects[0].values[0], 0U) << "a value that the process does not have";
}

TEST(page_reader, passes_over_kinds_that_it_does_not_know) {
  crafted_page p;
  p.add(0, static_cast<block_kind>(77), "later");
  EXPECT_TRUE(parse_page(p.bytes()).found->subjects.empty());
}

TEST(page_reader, lets_no_text_command_a_terminal) {
  crafted_page p;
  crafted_page::put(p.header().command, "\033[2Jrm\n\x9b\xff");
  p.add(0, block_kind::domain, std::string(64, 'n'));  // no zero byte at its end
  const auto read = parse_page(p.bytes());
  EXPECT_EQ(read.found->command, "?[2Jrm???");
  EXPECT_EQ(read.found->subjects[0].name, std::string(64, 'n'));
}

TEST(page_reader, survives_any_bytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    crafted_page p;
    p.add(0, block_kind::domain, "nic0");
    auto* const bytes = reinterpret_cast<unsigned char*>(&p.header());
    for (int i = 0; i < 20; ++i) bytes[8 + random() % 300] = static_cast<unsigned char>(random());
    const auto read = parse_page(p.bytes());
    EXPECT_NE(read.found.has_value(), !read.error.empty());
  }
}

TEST(page_reader, takes_no_file_that_could_shrink_under_it) {
  crafted_page p;
  EXPECT_TRUE(read_page(p.file().get()).found);
  EXPECT_EQ(read_page(p.file(0).get()).error, "not a sealed memfd");
  EXPECT_EQ(read_page(p.file(F_SEAL_GROW).get()).error, "not a sealed memfd");
}

TEST(page_reader, takes_no_file_of_an_absurd_size) {
  const crafted_page p;
  for (const off_t size : {off_t{0}, off_t{80}, off_t{16383}, off_t{1} << 40}) {
    const base::scoped_fd fd = p.file(0);
    ASSERT_EQ(::ftruncate(fd.get(), size), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_FALSE(read_page(fd.get()).found) << size;
  }
}

TEST(page_reader, shows_a_page_whose_process_stopped_within_a_change_and_says_so) {
  crafted_page p;
  p.header().changes = 7;
  p.add(0, block_kind::domain, "nic0");
  const auto read = read_page(p.file().get());
  ASSERT_TRUE(read.found) << read.error;
  EXPECT_TRUE(read.found->is_changing);
  EXPECT_EQ(read.found->subjects.size(), 1U);
}

// Blocks come and go all the time, and what they have counted together is the same in each copy
// that was taken as a whole.
TEST(page_reader, sees_no_block_half_gone) {
  base::counters::page written(true);
  {
    base::counters::published<value_list> first({block_kind::domain, "nic0", "tcp"}, written);
    (*first)[16] = 1000;
  }
  std::atomic<bool> is_done{false};
  std::thread process([&] {
    while (!is_done) {
      const base::counters::published<value_list> a({block_kind::domain, "nic0", "tcp"}, written);
      const base::counters::published<value_list> b({block_kind::domain, "nic0", "tcp"}, written);
    }
  });
  int whole = 0;
  for (int round = 0; round < 500; ++round) {
    const auto read = read_page(written.fd());
    ASSERT_TRUE(read.found) << read.error;
    if (read.found->is_changing) continue;
    ++whole;
    ASSERT_EQ(read.found->subjects.size(), 1U);
    EXPECT_EQ(read.found->subjects[0].values[16], 1000U);
  }
  is_done = true;
  process.join();
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace gaudi::top
