// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What one side of a run hears of the other's failure, wherever it is at that moment.
#include "common/oob.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "common/failure.hpp"

namespace gaudi::common {
namespace {

class farewell : public testing::Test {
 protected:
  farewell() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    here = std::make_unique<oob_channel>(descriptor(ends[0]), std::chrono::seconds(60));
    there = std::make_unique<oob_channel>(descriptor(ends[1]), std::chrono::seconds(60));
  }

  /// The other side fails and is gone.
  void fail_there() {
    there->tell_failure("no Gaudi");
    there.reset();
  }

  template <class Call>
  std::string heard(Call call) {
    try {
      call();
    } catch (const peer_failure& failure) {
      return failure.what();
    } catch (const failure& other) {
      return std::string("not the reason, but: ") + other.what();
    }
    return "nothing";
  }

  std::unique_ptr<oob_channel> here;
  std::unique_ptr<oob_channel> there;
};

constexpr const char* reason = "the other side failed: no Gaudi";

TEST_F(farewell, is_heard_by_who_waits_for_a_document) {
  fail_there();
  EXPECT_EQ(heard([&] { here->receive(); }), reason);
}

TEST_F(farewell, is_heard_by_who_sends) {
  fail_there();
  EXPECT_EQ(heard([&] { here->send("a document"); }), reason);
}

TEST_F(farewell, is_heard_by_who_meets_the_other) {
  fail_there();
  EXPECT_EQ(heard([&] { here->barrier(); }), reason);
}

TEST_F(farewell, is_heard_by_who_looks_only_now_and_then) {
  EXPECT_FALSE(here->peer_gone());
  there->send("a document that nobody reads");
  fail_there();
  EXPECT_EQ(heard([&] { here->peer_gone(); }), reason);
}

TEST_F(farewell, is_not_heard_where_there_was_none) {
  there.reset();
  EXPECT_TRUE(here->peer_gone());
  EXPECT_EQ(heard([&] { here->send("a document"); }).find("not the reason"), 0U);
}

TEST_F(farewell, does_no_harm_where_nobody_listens) {
  here.reset();
  there->tell_failure("no Gaudi");
}

}  // namespace
}  // namespace gaudi::common
