// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "ipc/fd_listener.hpp"

namespace gaudi::ipc {

/// Numbers that no other test that runs at the same time uses.
inline std::uint64_t new_instance() {
  static std::uint64_t next = 0;
  return (static_cast<std::uint64_t>(::getpid()) << 20) + ++next;
}

inline fd_handshake_id to(std::uint64_t instance, std::uint32_t connection = 1) {
  return {.to_instance = instance,
          .from_instance = 42,
          .to_connection = connection,
          .from_connection = 2};
}

inline int open_descriptors() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count;
}

/// Who connects to a meeting point by hand.
class slow_visitor {
 public:
  explicit slow_visitor(std::uint64_t instance)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int text = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gaudi-fi-%016lx",
                                   static_cast<unsigned long>(instance));
    const auto length = offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(text);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&name),
                        static_cast<socklen_t>(length)),
              0);
  }
  void say(fd_handshake_id what) const {
    const base::scoped_fd memory(::memfd_create("brought", MFD_CLOEXEC));
    bring(&what, sizeof what, std::vector<int>(1, memory.get()));
  }
  /// A packet of any kind, with any descriptors.
  void bring(const void* bytes, std::size_t length, const std::vector<int>& fds) const {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(8 * sizeof(int))> space{};
    iovec text{const_cast<void*>(bytes), length};
    msghdr m{};
    m.msg_iov = &text;
    m.msg_iovlen = 1;
    m.msg_control = space.data();
    m.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    EXPECT_EQ(::sendmsg(socket_.get(), &m, 0), static_cast<ssize_t>(length));
  }
  void say_nonsense() const { EXPECT_EQ(::send(socket_.get(), "hello", 5, 0), 5); }
  [[nodiscard]] bool is_hung_up_on() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  /// Blocks until it is.
  [[nodiscard]] bool waits_until_hung_up_on() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) <= 0;
  }

 private:
  base::scoped_fd socket_;
};

}  // namespace gaudi::ipc
