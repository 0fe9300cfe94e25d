// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/tcp_listener.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

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
base::scoped_fd duplicate_socket(int folder, int fd) noexcept {
  std::array<char, 16> name{};
  std::to_chars(name.data(), name.data() + name.size() - 1, fd);
  struct stat s {};
  if (::fstatat(folder, name.data(), &s, 0) != 0 || !S_ISSOCK(s.st_mode)) return {};
  base::scoped_fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy || is_socket(copy.get())) return copy;
  static_cast<void>(copy.release());  // the number stands for a file by now
  return {};
}

/// The process's descriptors, `folder`'s own among them. Throws std::bad_alloc.
std::vector<int> descriptors(DIR* folder) {
  std::vector<int> all;
  while (const dirent* const entry = ::readdir(folder)) {
    int fd = -1;
    const char* const name = entry->d_name;
    const char* const end = name + std::strlen(name);
    if (std::from_chars(name, end, fd).ptr == end) all.push_back(fd);
  }
  return all;
}

/// Calls visit(fd) for each socket of the process until it returns false. The newest first, which
/// mostly have the highest numbers: of those that a process with thousands of connections has, a
/// listener that was just made is then among the first.
template <class Visit>
void for_each_socket(Visit&& visit) noexcept try {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  if (!folder) return;
  const std::vector<int> all = descriptors(folder.get());
  for (auto fd = all.rbegin(); fd != all.rend(); ++fd) {
    const base::scoped_fd socket = duplicate_socket(::dirfd(folder.get()), *fd);
    if (socket && !visit(socket.get())) return;
  }
} catch (const std::bad_alloc&) {  // as where the folder cannot be read
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

bool descriptors_are_scarce() noexcept {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur == RLIM_INFINITY) return false;
  const base::scoped_fd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!lowest) return errno == EMFILE;
  return static_cast<rlim_t>(lowest.get()) >= most.rlim_cur / 8 * 7;
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

unsigned end_all(const sockaddr* name, std::size_t length) noexcept {
  return end_silent(name, length, SIZE_MAX, std::chrono::milliseconds(0));
}

}  // namespace gaudi::core
