// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/tcp_listener.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "base/scoped_fd.hpp"

namespace gaudi::core {
namespace {

constexpr timeval max_read{.tv_sec = 0, .tv_usec = 100'000};

bool is_socket(int fd) noexcept {
  int type = 0;
  socklen_t length = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0;
}

// A duplicate, so that a descriptor which another thread closes in the middle is still the same
// socket. Only of sockets: to close a duplicate of a file would drop the application's locks on it.
// The look before goes by the name, as ThreadSanitizer takes a descriptor for memory that whoever
// closes it writes to.
base::scoped_fd duplicate_socket(int folder, const char* name, int fd) noexcept {
  struct stat s {};
  if (::fstatat(folder, name, &s, 0) != 0 || !S_ISSOCK(s.st_mode)) return {};
  base::scoped_fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy || is_socket(copy.get())) return copy;
  static_cast<void>(copy.release());  // the number stands for a file by now
  return {};
}

/// Calls visit(fd) for each socket of the process until it returns false.
template <class Visit>
void for_each_socket(Visit&& visit) noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    int fd = -1;
    const char* const name = entry->d_name;
    const char* const end = name + std::strlen(name);
    if (std::from_chars(name, end, fd).ptr != end) continue;
    const base::scoped_fd socket = duplicate_socket(::dirfd(folder.get()), name, fd);
    if (socket && !visit(socket.get())) return;
  }
}

bool listens(int fd) noexcept {
  int yes = 0;
  socklen_t length = sizeof yes;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &length) == 0 && yes != 0;
}

bool has_name(int fd, const sockaddr* name, std::size_t length) noexcept {
  sockaddr_storage own{};
  socklen_t own_length = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0) return false;
  return own_length == length && std::memcmp(&own, name, length) == 0;
}

bool is_silent(int fd, std::size_t least, std::chrono::milliseconds limit) noexcept {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return info.tcpi_bytes_received < least &&
         std::chrono::milliseconds(info.tcpi_last_data_recv) >= limit;
}

}  // namespace

bool limit_reads(const sockaddr* name, std::size_t length) noexcept {
  bool found = false;
  for_each_socket([&](int fd) {
    if (!listens(fd) || !has_name(fd, name, length)) return true;
    found = ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &max_read, sizeof max_read) == 0;
    return false;
  });
  return found;
}

unsigned end_silent(const sockaddr* name, std::size_t length, std::size_t least,
                    std::chrono::milliseconds limit) noexcept {
  unsigned ended = 0;
  for_each_socket([&](int fd) {
    if (!listens(fd) && has_name(fd, name, length) && is_silent(fd, least, limit) &&
        ::shutdown(fd, SHUT_RDWR) == 0)
      ++ended;
    return true;
  });
  return ended;
}

}  // namespace gaudi::core
