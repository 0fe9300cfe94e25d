// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace hlsim_test {

/// A byte from one process to another: "go on", or a file descriptor with it.
class channel {
 public:
  channel() { ok_ = ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0; }
  ~channel() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  /// The parent uses end 0, the child end 1.
  bool signal(int end) const { return ok_ && ::write(ends_[end], "x", 1) == 1; }
  bool await(int end) const {
    char c = 0;
    return ok_ && ::read(ends_[end], &c, 1) == 1;
  }

  bool send_fd(int end, int fd) const {
    char byte = 'f', control[CMSG_SPACE(sizeof fd)] = {};
    iovec io{&byte, 1};
    msghdr message{};
    message.msg_iov = &io, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return ::sendmsg(ends_[end], &message, 0) == 1;
  }
  int receive_fd(int end) const {
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
    iovec io{&byte, 1};
    msghdr message{};
    message.msg_iov = &io, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    if (::recvmsg(ends_[end], &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    int fd = -1;
    if (const cmsghdr* c = CMSG_FIRSTHDR(&message)) std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
  }

 private:
  int ends_[2] = {-1, -1};
  bool ok_;
};

}  // namespace hlsim_test
