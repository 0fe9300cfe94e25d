// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/fd_listener.hpp"

#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/log.hpp"

namespace gaudi::ipc {
namespace {

// Handshake ids of connections that came to nothing are forgotten, the oldest first.
constexpr std::size_t max_waiting = 256;

// All that can be queued at once: one more than the backlog, as af_unix counts. More in one call
// would let whoever connects without end hold the caller, which has the domain lock.
constexpr int max_accepts = SOMAXCONN + 1;

struct socket_name {
  sockaddr_un address{};
  socklen_t length;
};

// The first byte of an abstract name is zero, and the length counts.
socket_name name_of(std::uint64_t instance) noexcept {
  socket_name n{};
  n.address.sun_family = AF_UNIX;
  const int written = std::snprintf(n.address.sun_path + 1, sizeof n.address.sun_path - 1,
                                    "gaudi-fi-%016lx", static_cast<unsigned long>(instance));
  n.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                    static_cast<std::size_t>(written));
  return n;
}

base::scoped_fd new_socket() noexcept {
  return base::scoped_fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

const sockaddr* generic(const sockaddr_un& a) noexcept {
  return reinterpret_cast<const sockaddr*>(&a);
}

// In a user namespace that does not map all users the kernel shows those that it does not map as
// one, the overflow user (user_namespaces(7)): to be that one says nothing then.
bool says_who_it_is(uid_t user) noexcept {
  constexpr uid_t overflow = 65534;
  if (user != overflow) return true;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> map(std::fopen("/proc/self/uid_map", "re"),
                                                            std::fclose);
  unsigned long count{};  // of the first range, which is of all where it has so many
  return map && std::fscanf(map.get(), "%*u %*u %lu", &count) == 1 && count == UINT32_MAX;
}

// Who is at the other end, if it is a process of this user.
base::result<pid_t> pid_of(const base::scoped_fd& socket) noexcept {
  ucred who{};
  socklen_t length = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
    return base::error{-errno};
  if (who.uid != ::geteuid() || !says_who_it_is(who.uid)) return base::error{-FI_EACCES};
  return who.pid;
}

union descriptor_space {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// The one descriptor of a message that brings just one. All that came with it are ours to close,
// whatever else it is: the alignment of control messages leaves room for two.
base::scoped_fd descriptor_in(msghdr& m) noexcept {
  base::scoped_fd only;
  std::size_t count = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = c->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      only = base::scoped_fd(fd);
      ++count;
    }
  }
  if (count != 1 || (m.msg_flags & MSG_CTRUNC)) return {};
  return only;
}

int send_descriptor(const base::scoped_fd& socket, fd_handshake_id says, int memory) noexcept {
  descriptor_space space{};
  iovec text{&says, sizeof says};
  msghdr m{};
  m.msg_iov = &text;
  m.msg_iovlen = 1;
  m.msg_control = &space;
  m.msg_controllen = sizeof space.bytes;
  cmsghdr* const c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof memory);
  std::memcpy(CMSG_DATA(c), &memory, sizeof memory);
  return ::sendmsg(socket.get(), &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

// A packet's length; 0: the end. The kernel looks for a packet, and if there is none, whether the
// other end has closed. One that was sent between these two looks, by somebody who closed at once,
// is there nevertheless (once in some 10,000 times; net/unix/af_unix.c, unix_dgram_recvmsg).
template <class Receive>
ssize_t packet_or_end(Receive receive) noexcept {
  const ssize_t got = receive();
  return got == 0 ? receive() : got;
}

enum class hearing { nothing_yet, a_handshake_id, nonsense };

// A client is pending from its connect(2) on, which may be before it has sent anything.
hearing receive_descriptor(const base::scoped_fd& socket, fd_handshake_id& id,
                           base::scoped_fd& memory) noexcept {
  descriptor_space space{};
  iovec text{&id, sizeof id};
  msghdr m{};
  const std::span<char> control = space.bytes;
  const ssize_t got = packet_or_end([&] {
    m = {};
    m.msg_iov = &text;
    m.msg_iovlen = 1;
    m.msg_control = control.data();
    m.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket.get(), &m, MSG_CMSG_CLOEXEC);
    // An empty packet may bring some, too: they are closed.
    base::scoped_fd brought = length >= 0 ? descriptor_in(m) : base::scoped_fd();
    if (length > 0) memory = std::move(brought);
    return length;
  });
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return hearing::nothing_yet;
  return got == static_cast<ssize_t>(sizeof id) && memory ? hearing::a_handshake_id
                                                          : hearing::nonsense;
}

}  // namespace

base::result<fd_listener> fd_listener::open(std::uint64_t instance) {
  base::scoped_fd listener = new_socket();
  if (!listener) return base::error{-errno};
  const socket_name name = name_of(instance);
  if (::bind(listener.get(), generic(name.address), name.length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0)
    return base::error{-errno};
  return fd_listener(std::move(listener));
}

void fd_listener::accept_pending() {
  for (int i = 0; i < max_accepts; ++i) {
    base::scoped_fd socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const auto pid = pid_of(socket);
    if (!pid) {
      if (!std::exchange(warned_, true))
        GAUDI_WARN(EP_CTRL,
                   "a process of another user, or of one unknown to this user namespace, asked to "
                   "share memory and was turned away (FI_GAUDI_IPC)\n");
      continue;
    }
    if (waiting_.size() == max_waiting) waiting_.pop_front();
    waiting_.push_back({.received = {.with = {std::move(socket), *pid}, .memory = {}}, .id = {}});
  }
}

void fd_listener::listen() {
  std::erase_if(waiting_, [](pending_client& v) {
    if (v.id) return false;
    fd_handshake_id id{};
    const hearing heard = receive_descriptor(v.received.with.socket, id, v.received.memory);
    if (heard == hearing::a_handshake_id) v.id = id;
    return heard == hearing::nonsense;
  });
}

std::optional<received_fd> fd_listener::take(const fd_handshake_id& expected) {
  accept_pending();
  listen();
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const pending_client& v) { return v.id == expected; });
  if (found == waiting_.end()) return std::nullopt;
  received_fd received = std::move(found->received);
  waiting_.erase(found);
  return received;
}

base::result<control_socket> send_fd(const fd_handshake_id& says, int memory) {
  base::scoped_fd socket = new_socket();
  if (!socket) return base::error{-errno};
  const socket_name name = name_of(says.to_instance);
  if (::connect(socket.get(), generic(name.address), name.length) != 0) return base::error{-errno};
  const auto pid = pid_of(socket);
  if (!pid) return pid.failure();
  if (const int ret = send_descriptor(socket, says, memory)) return base::error{ret};
  return control_socket{std::move(socket), *pid};
}

int answer(const control_socket& with, bool yes) noexcept {
  const char byte = yes ? 1 : 0;
  return ::send(with.socket.get(), &byte, sizeof byte, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

std::optional<bool> answer_of(const control_socket& with) noexcept {
  char byte = 0;
  const ssize_t got =
      packet_or_end([&] { return ::recv(with.socket.get(), &byte, sizeof byte, 0); });
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return got == sizeof byte && byte == 1;
}

}  // namespace gaudi::ipc
