// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What only shows where the stand-in's exports are real dma-bufs, beside tests/unit/hlsim.
#include <sys/file.h>
#include <sys/stat.h>

#include <deque>
#include <string>

#include "simulation.hpp"

namespace hlsim_test {
namespace {

constexpr int flags = O_RDWR | O_CLOEXEC;
constexpr uint64_t page = 4 * mib;

// A locked file, in a filesystem that counts inodes from 1 on as that of dma-bufs does.
class locked_file {
 public:
  locked_file() {
    std::string name = "/dev/shm/hlsim-inode-XXXXXX";
    fd_ = ::mkstemp(name.data());
    ::unlink(name.c_str());
    ::flock(fd_, LOCK_EX);
  }
  locked_file(const locked_file&) = delete;
  locked_file& operator=(const locked_file&) = delete;
  ~locked_file() { ::close(fd_); }
  ino_t inode() const { return inode_of(fd_); }

  static ino_t inode_of(int fd) {
    struct stat s {};
    EXPECT_EQ(::fstat(fd, &s), 0);
    return s.st_ino;
  }

 private:
  int fd_;
};

TEST(real_dmabuf, is_told_from_a_locked_file_with_its_inode_number) {
  ASSERT_EQ(::access("/dev/udmabuf", R_OK | W_OK), 0) << "only real dma-bufs are told by inode";
  simulate({{"HLSIM_HBM", "64M"}, {"HLSIM_HBM_PAGE", "4M"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const auto export_and_close = [&] {
      const int fd =
          hlthunk_device_mapped_memory_export_dmabuf_fd(hbm.device, hbm.va, page, 0, flags);
      const ino_t inode = locked_file::inode_of(fd);
      ::close(fd);
      return inode;
    };
    ino_t last = export_and_close();
    std::deque<locked_file> files(1);
    // An export takes one number, or two.
    while (files.back().inode() != last && files.size() < 1000) {
      if (files.back().inode() < last)
        files.emplace_back();
      else
        last = export_and_close();
    }
    ASSERT_EQ(last, files.back().inode());
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), 0) << "no export is left";
  });
}

}  // namespace
}  // namespace hlsim_test
