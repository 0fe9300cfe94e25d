// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "node.hpp"

namespace gaudi::test {

/// While it lives the process gets no more address space than it has, and a little for what is
/// small.
class no_more_memory {
 public:
  no_more_memory() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    must(-(::getrlimit(RLIMIT_AS, &before_)), "getrlimit");
    rlimit now = before_;
    now.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + little;
    must(-(::setrlimit(RLIMIT_AS, &now)), "setrlimit");
  }
  ~no_more_memory() { ::setrlimit(RLIMIT_AS, &before_); }
  no_more_memory(const no_more_memory&) = delete;
  no_more_memory& operator=(const no_more_memory&) = delete;

 private:
  static constexpr std::size_t little = std::size_t{1} << 19;
  rlimit before_{};
};

}  // namespace gaudi::test
