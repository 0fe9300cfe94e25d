// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/outstanding_page.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

namespace gaudi::base::outstanding {
namespace {

/// What another process would find.
struct seen_page {
  explicit seen_page(const page& of) : bytes(page_size) {
    EXPECT_EQ(::pread(of.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(page_size));
  }
  const page_header& header() const { return *reinterpret_cast<const page_header*>(bytes.data()); }
  const record& at(std::size_t i) const {
    return *reinterpret_cast<const record*>(bytes.data() + header_size + i * sizeof(record));
  }
  std::size_t taken() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < record_count; ++i) count += at(i).kind != record_kind::none;
    return count;
  }
  std::vector<std::byte> bytes;
};

TEST(outstanding_page, tells_whose_it_is) {
  const page p(true);
  const seen_page seen(p);
  EXPECT_EQ(seen.header().magic, magic);
  EXPECT_EQ(seen.header().version, version);
  EXPECT_EQ(seen.header().page_size, page_size);
  EXPECT_EQ(seen.header().record_size, sizeof(record));
  EXPECT_EQ(seen.header().record_count, record_count);
  EXPECT_EQ(seen.header().pid, ::getpid());
  EXPECT_GT(seen.header().start_time, 0U);
  EXPECT_EQ(std::string(seen.header().command.data()),
            std::string(::program_invocation_short_name).substr(0, 15));
  EXPECT_EQ(seen.taken(), 0U);
}

TEST(outstanding_page, gives_each_kind_its_own_records_until_there_are_none) {
  page p(true);
  std::set<const record*> all;
  for (const auto& [kind, count] :
       {std::pair{record_kind::operation, max_operations},
        std::pair{record_kind::connection, max_connections},
        std::pair{record_kind::endpoint, max_endpoints}, std::pair{record_kind::call, max_calls}}) {
    for (std::size_t i = 0; i < count; ++i) {
      record* const r = p.take(kind);
      ASSERT_NE(r, nullptr) << i;
      EXPECT_EQ(r->kind, kind);
      EXPECT_TRUE(all.insert(r).second);
    }
    EXPECT_EQ(p.take(kind), nullptr) << "more than there are";
  }
  EXPECT_EQ(seen_page(p).taken(), record_count);
}

TEST(outstanding_page, has_a_record_again_that_was_given_back_with_nothing_of_before_in_it) {
  page p(true);
  record* last = nullptr;
  for (std::size_t i = 0; i < max_operations; ++i) last = p.take(record_kind::operation);
  ASSERT_NE(last, nullptr);
  last->since = 7;
  const std::uint32_t before = last->sequence;
  p.give_back(*last);
  EXPECT_EQ(seen_page(p).taken(), max_operations - 1);
  EXPECT_EQ(p.take(record_kind::operation), last);
  EXPECT_EQ(last->since, 0U);
  EXPECT_EQ(last->sequence, before + 2) << "a reader notices that it was given back";
}

TEST(outstanding_page, leaves_records_of_another_page_alone) {
  page one(true);
  page other(true);
  record* const r = one.take(record_kind::endpoint);
  other.give_back(*r);
  EXPECT_EQ(r->kind, record_kind::endpoint);
}

TEST(outstanding_page, has_no_records_where_nobody_shall_see_it) {
  page p(false);
  EXPECT_EQ(p.header(), nullptr);
  EXPECT_EQ(p.take(record_kind::operation), nullptr);
}

TEST(record_owner, writes_a_whole_record_and_gives_it_back) {
  page& own = page::instance();
  const std::size_t before = seen_page(own).taken();
  {
    record_owner owner(record_kind::connection);
    ASSERT_TRUE(owner);
    record value{};
    value.sequence = 99;
    value.since = 5;
    value.total = 6;
    owner.write(value);
    const seen_page seen(own);
    const record& shown = seen.at(owner.place());
    EXPECT_EQ(shown.kind, record_kind::connection);
    EXPECT_EQ(shown.sequence % 2, 0U);
    EXPECT_NE(shown.sequence, 99U);
    EXPECT_EQ(shown.total, 6U);
    EXPECT_EQ(owner.since(), 5U);
    owner.change([](record& r) { r.total = 7; });
    EXPECT_EQ(seen_page(own).at(owner.place()).total, 7U);
    EXPECT_EQ(seen_page(own).at(owner.place()).sequence, shown.sequence + 2);
    owner.clear();
    EXPECT_EQ(owner.since(), 0U);
    EXPECT_EQ(seen_page(own).at(owner.place()).kind, record_kind::connection) << "it is kept";
    record_owner moved(std::move(owner));
    EXPECT_TRUE(moved);
    EXPECT_EQ(seen_page(own).taken(), before + 1);
  }
  EXPECT_EQ(seen_page(own).taken(), before);
}

TEST(record_owner, of_a_parent_is_not_given_back_by_its_child) {
  record_owner owner(record_kind::operation);
  ASSERT_TRUE(owner);
  const std::uint32_t place = owner.place();
  page& own = page::instance();
  const pid_t child = ::fork();
  if (child == 0) {
    owner.reset();
    ::_exit(page::instance().header()->pid == ::getpid() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the child has a page of its own";
  EXPECT_EQ(seen_page(own).at(place).kind, record_kind::operation);
}

}  // namespace
}  // namespace gaudi::base::outstanding
