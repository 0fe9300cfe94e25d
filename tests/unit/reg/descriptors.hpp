// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include "base/counters_page.hpp"
#include "base/outstanding_page.hpp"

namespace gaudi::test {

/// Of this process, which has those of its pages from its first device and driver call on.
inline long open_descriptors() {
  base::counters::page::instance();
  base::outstanding::page::instance();
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// While it lives, few descriptors can be open.
class few_descriptors {
 public:
  few_descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = 64, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  few_descriptors(const few_descriptors&) = delete;
  few_descriptors& operator=(const few_descriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace gaudi::test
