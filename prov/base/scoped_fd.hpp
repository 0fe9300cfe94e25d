// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <unistd.h>

#include <utility>

namespace gaudi::base {

/// Owns a file descriptor and closes it. Empty when get() < 0. Move-only.
class scoped_fd {
 public:
  scoped_fd() = default;
  explicit scoped_fd(int fd) noexcept : fd_(fd) {}
  scoped_fd(scoped_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  scoped_fd& operator=(scoped_fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~scoped_fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace gaudi::base
