// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "node.hpp"

namespace gaudi::test {

/// What libfabric logs, while it lives.
class captured_log {
 public:
  captured_log() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~captured_log() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
  }
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;

  [[nodiscard]] std::string text() const {
    std::string all(static_cast<std::size_t>(::lseek(::fileno(file_), 0, SEEK_END)), 0);
    must(::pread(::fileno(file_), all.data(), all.size(), 0), "pread");
    return all;
  }

 private:
  std::FILE* file_;
  int before_;
};

}  // namespace gaudi::test
