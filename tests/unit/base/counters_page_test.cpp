// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/counters_page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/counter_names.hpp"
#include "base/path_reasons.hpp"

namespace {

using namespace gaudi::base::counters;

constexpr subject nic{block_kind::domain, "nic0", "verbs"};

/// What another process would find.
struct copy {
  explicit copy(const page& of) : bytes(page_size) {
    EXPECT_EQ(::pread(of.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(page_size));
  }
  const page_header& header() const { return *reinterpret_cast<const page_header*>(bytes.data()); }
  const block& at(std::size_t i) const {
    return *reinterpret_cast<const block*>(bytes.data() + header_size + i * sizeof(block));
  }
  std::size_t taken() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < block_count; ++i) count += at(i).head.kind != block_kind::none;
    return count;
  }
  std::vector<std::byte> bytes;
};

struct three {
  std::uint64_t hits = 0, misses = 0, made = 0;
};

TEST(counters_page, tells_whose_it_is) {
  const page p(true);
  const copy seen(p);
  EXPECT_EQ(seen.header().magic, magic);
  EXPECT_EQ(seen.header().version, version);
  EXPECT_EQ(seen.header().page_size, page_size);
  EXPECT_EQ(seen.header().block_size, sizeof(block));
  EXPECT_EQ(seen.header().block_count, block_count);
  EXPECT_EQ(seen.header().pid, ::getpid());
  EXPECT_GT(seen.header().start_time, 0U);
  EXPECT_EQ(std::string(seen.header().command.data()),
            std::string(::program_invocation_short_name).substr(0, 15));
  EXPECT_EQ(seen.taken(), 0U);
}

TEST(counters_page, is_for_its_user_alone_and_nobody_else_writes_it) {
  const page p(true);
  struct stat facts {};
  ASSERT_EQ(::fstat(p.fd(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0600U);
  EXPECT_EQ(::ftruncate(p.fd(), 0), -1) << "a reader would die";
  const int seals = ::fcntl(p.fd(), F_GET_SEALS);
  if ((seals & 0x0010) == 0) GTEST_SKIP() << "this kernel has no F_SEAL_FUTURE_WRITE";
  EXPECT_EQ(::pwrite(p.fd(), "x", 1, 0), -1);
  EXPECT_EQ(::mmap(nullptr, page_size, PROT_WRITE, MAP_SHARED, p.fd(), 0), MAP_FAILED);
}

TEST(counters_page, shows_what_is_counted_in_it) {
  page p(true);
  published<three> counted(nic, p);
  counted->hits = 3;
  ++counted->made;
  const copy seen(p);
  EXPECT_EQ(seen.at(0).head.kind, block_kind::domain);
  EXPECT_EQ(seen.at(0).head.state, block_state::open);
  EXPECT_STREQ(seen.at(0).head.name.data(), "nic0");
  EXPECT_STREQ(seen.at(0).head.detail.data(), "verbs");
  EXPECT_EQ(seen.at(0).head.value_count, value_count(block_kind::domain));
  EXPECT_EQ(seen.at(0).values[0], 3U);
  EXPECT_EQ(seen.at(0).values[2], 1U);
}

TEST(counters_page, adds_up_what_was_closed_by_name_and_keeps_no_levels) {
  page p(true);
  for (int i = 0; i < 100; ++i) {
    published<std::array<std::uint64_t, max_values>> counted(nic, p);
    (*counted)[first_path_value] = 7;
    (*counted)[8] = 2;  // endpoints
  }
  { const published<three> other({block_kind::domain, "nic0", "tcp"}, p); }
  const copy seen(p);
  EXPECT_EQ(seen.taken(), 2U);
  EXPECT_EQ(seen.at(0).head.state, block_state::closed);
  EXPECT_EQ(seen.at(0).values[first_path_value], 700U);
  EXPECT_EQ(seen.at(0).values[8], 0U);
  EXPECT_EQ(seen.header().changes % 2, 0U);
}

TEST(counters_page, begins_a_block_anew_beside_the_sum) {
  page p(true);
  { published<three>(nic, p)->hits = 5; }
  const published<three> counted(nic, p);
  EXPECT_EQ(counted->hits, 0U);
  const copy seen(p);
  EXPECT_EQ(seen.at(0).values[0], 5U);
  EXPECT_EQ(seen.at(1).values[0], 0U);
  EXPECT_EQ(seen.at(1).head.state, block_state::open);
}

TEST(counters_page, that_is_full_counts_those_that_nobody_sees) {
  page p(true);
  std::vector<std::unique_ptr<published<three>>> many;
  for (std::size_t i = 0; i < block_count + 2; ++i) {
    many.push_back(std::make_unique<published<three>>(nic, p));
    (*many.back())->hits = i;
  }
  EXPECT_EQ(copy(p).header().unseen, 2U);
  EXPECT_EQ((*many.back())->hits, block_count + 1);
  many.clear();
  EXPECT_EQ(copy(p).taken(), 1U);
}

TEST(counters_page, that_is_off_is_nowhere) {
  page p(false);
  EXPECT_EQ(p.fd(), -1);
  published<three> counted(nic, p);
  ++counted->hits;
  EXPECT_EQ(counted->hits, 1U);
}

TEST(counters_page, cuts_long_names_and_ends_them) {
  page p(true);
  const std::string name(200, 'n');
  const published<three> counted({block_kind::device, name, name, 3}, p);
  const copy seen(p);
  EXPECT_EQ(std::string(seen.at(0).head.name.data()), name.substr(0, 63));
  EXPECT_EQ(std::string(seen.at(0).head.detail.data()), name.substr(0, 31));
  EXPECT_EQ(seen.at(0).head.number, 3);
}

TEST(counters_page, of_a_parent_is_left_alone_by_its_child) {
  page p(true);
  auto counted = std::make_unique<published<three>>(nic, p);
  (*counted)->hits = 4;
  const pid_t child = ::fork();
  if (child == 0) {
    counted.reset();
    ::_exit(page::instance().fd() == p.fd() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const copy seen(p);
  EXPECT_EQ(seen.at(0).head.state, block_state::open);
  EXPECT_EQ(seen.at(0).values[0], 4U);
}

// An instance of the process's own, not of the one that it came from.
TEST(counters_page, of_a_child_is_its_own) {
  const int ours = page::instance().fd();
  ASSERT_GE(ours, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const page& own = page::instance();
    ::_exit(own.fd() != ours && own.header() && own.header()->pid == ::getpid() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(counter_names, name_each_place_once_in_order) {
  for (const block_kind kind : {block_kind::domain, block_kind::device}) {
    std::set<std::string_view> names;
    std::size_t next = 0;
    for (const value_name& v : values_of(kind)) {
      EXPECT_GE(v.place, next) << v.name;
      next = v.place + 1;
      EXPECT_TRUE(names.insert(v.name).second) << v.name;
      EXPECT_FALSE(v.help.empty()) << v.name;
    }
    EXPECT_EQ(value_count(kind), next);
  }
}

TEST(counter_names, have_the_reasons_for_paths_in_their_order) {
  const auto first = std::find_if(domain_values.begin(), domain_values.end(),
                                  [](const value_name& v) { return v.place == 38; });
  const auto reasons = std::span(first, domain_values.end());
  ASSERT_GE(reasons.size(), gaudi::base::path_reason_count);
  for (std::size_t i = 0; i < gaudi::base::path_reason_count; ++i) {
    const auto why = static_cast<gaudi::base::path_reason>(i + 1);
    EXPECT_EQ(reasons[i].name, "path_" + std::string(gaudi::base::name_of(why)));
    EXPECT_FALSE(gaudi::base::text_of(why).empty()) << reasons[i].name;
  }
}

}  // namespace
