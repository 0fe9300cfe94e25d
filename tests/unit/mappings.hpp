// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which memory of a file this process has mapped. To look at the address does not tell: once it is
// unmapped, the next allocation may be there.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace gaudi::test {

/// A file, which need not stay open here.
class mapped_file {
 public:
  explicit mapped_file(int fd) { EXPECT_EQ(::fstat(fd, &facts_), 0); }

  /// In how many pieces this process has it mapped.
  std::size_t mappings() const {
    std::ifstream maps("/proc/self/maps");
    std::size_t found = 0;
    std::string range, access, offset, device, line;
    ino_t inode = 0;
    while (maps >> range >> access >> offset >> device >> inode && std::getline(maps, line))
      found += inode == facts_.st_ino;
    return found;
  }

 private:
  struct stat facts_ {};
};

}  // namespace gaudi::test
