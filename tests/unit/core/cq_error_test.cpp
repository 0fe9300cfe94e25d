// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/cq_error.hpp"

#include <gtest/gtest.h>

namespace gaudi::core {
namespace {

TEST(cq_error, of_a_connection_that_went_is_the_same_in_every_core) {
  for (const int error : {FI_ECANCELED, FI_ENOTCONN, FI_ECONNABORTED, FI_ECONNRESET, EPIPE})
    EXPECT_EQ(cause_of(error, 0, false), FI_ECONNRESET) << fi_strerror(error);
  constexpr int flushed = 5;
  constexpr int nobody_answers = 12;
  EXPECT_EQ(cause_of(FI_EIO, flushed, true), FI_ECONNRESET);
  EXPECT_EQ(cause_of(FI_EIO, nobody_answers, true), FI_ECONNRESET);
}

TEST(cq_error, of_a_key_or_of_anything_else_stays_what_it_is) {
  constexpr int access = 10;
  EXPECT_EQ(cause_of(FI_EIO, access, true), FI_EACCES);
  EXPECT_EQ(cause_of(FI_EIO, access, false), FI_EIO) << "only verbs has these words";
  EXPECT_EQ(cause_of(FI_ETRUNC, 0, false), FI_ETRUNC);
  EXPECT_EQ(cause_of(0, 0, false), FI_EIO);
}

}  // namespace
}  // namespace gaudi::core
