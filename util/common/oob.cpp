// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/oob.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "common/failure.hpp"
#include "common/let_others_run.hpp"

namespace gaudi::common {
namespace {

using clock = std::chrono::steady_clock;

// More than any document of ours; a larger length means that something else is speaking.
constexpr std::uint32_t max_document = 16U << 20;

// Stands where a document's length does, before the reason for which the sender ends; its first
// byte where a barrier's token does. No length and no text has it.
constexpr std::uint32_t failure_mark = 0xfafafafa;
constexpr std::byte failure_byte{0xfa};
constexpr std::byte barrier_token{0x62};
// Whoever fails waits so long for the other to read why.
constexpr int farewell_ms = 1000;

struct addrinfo_delete {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using addrinfo_ptr = std::unique_ptr<addrinfo, addrinfo_delete>;

[[noreturn]] void fail(const std::string& what) {
  throw failure(fmt::format("{}: {}", what, std::strerror(errno)));
}

addrinfo_ptr resolve(const char* host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &list); error != 0)
    throw failure(fmt::format("{}: {}", host, gai_strerror(error)));
  return addrinfo_ptr(list);
}

descriptor try_connect(const addrinfo* list) {
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    descriptor socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() >= 0 && ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0)
      return socket;
  }
  return descriptor();
}

// One IPv6 socket takes IPv4 clients too; a kernel without IPv6 gets an IPv4 socket.
descriptor listen_on(std::uint16_t port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);

  const int on = 1;
  const int off = 0;
  descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool v6 = socket.get() >= 0;
  if (!v6) socket = descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (v6) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* address =
      v6 ? reinterpret_cast<sockaddr*>(&any6) : reinterpret_cast<sockaddr*>(&any4);
  const socklen_t length = v6 ? sizeof any6 : sizeof any4;
  if (bind(socket.get(), address, length) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    fail(fmt::format("cannot listen on port {} (another server? choose one with --port)", port));
  return socket;
}

}  // namespace

descriptor& descriptor::operator=(descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

descriptor::~descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int descriptor::release() {
  return std::exchange(fd_, -1);
}

oob_channel::oob_channel(descriptor socket, std::chrono::seconds timeout)
    : socket_(std::move(socket)), timeout_(timeout) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on a local socket
}

oob_listener::oob_listener(std::uint16_t port) : socket_(listen_on(port)) {}

oob_channel oob_listener::accept(std::chrono::seconds timeout) const {
  descriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (client.get() < 0) fail("accept");
  return {std::move(client), timeout};
}

bool oob_listener::has_client(std::chrono::milliseconds limit) const {
  pollfd entry{socket_.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(limit.count())) > 0;
}

oob_channel oob_channel::accept(std::uint16_t port, std::chrono::seconds timeout) {
  return oob_listener(port).accept(timeout);
}

oob_channel oob_channel::connect(const std::string& host, std::uint16_t port,
                                 std::chrono::seconds timeout) {
  const auto end = clock::now() + timeout;
  const addrinfo_ptr list = resolve(host.c_str(), port);
  for (;;) {
    if (descriptor socket = try_connect(list.get()); socket.get() >= 0)
      return {std::move(socket), timeout};
    if (clock::now() > end) fail(fmt::format("no server at {} port {}", host, port));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void oob_channel::send(const nlohmann::json& value) {
  const std::string text = value.dump();
  const auto length = htonl(static_cast<std::uint32_t>(text.size()));
  send_bytes(std::as_bytes(std::span(&length, 1)));
  send_bytes(std::as_bytes(std::span(text)));
}

nlohmann::json oob_channel::receive() {
  std::uint32_t length = 0;
  receive_bytes(std::as_writable_bytes(std::span(&length, 1)));
  length = ntohl(length);
  if (length == failure_mark) receive_failure();
  if (length > max_document) throw failure("the peer does not speak this tool's protocol");
  std::string text(length, '\0');
  receive_bytes(std::as_writable_bytes(std::span(text)));
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) throw failure("the peer does not speak this tool's protocol");
  return value;
}

nlohmann::json oob_channel::exchange(const nlohmann::json& value) {
  send(value);
  return receive();
}

void oob_channel::barrier() {
  std::byte token = barrier_token;
  send_bytes(std::span(&token, 1));
  receive_bytes(std::span(&token, 1));
  if (token == failure_byte) {
    std::array<std::byte, sizeof failure_mark - 1> rest{};
    receive_bytes(rest);
    receive_failure();
  }
  if (token != barrier_token) throw failure("the two sides are out of step");
}

bool oob_channel::peer_gone() {
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) <= 0 || (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
    return false;
  look_for_reason();
  return true;
}

// It is behind what this side has not read yet, and can be read after a send has failed, too.
void oob_channel::look_for_reason() {
  std::string left;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT)) > 0;)
    left.append(part.data(), static_cast<std::size_t>(got));
  const auto at = left.find(std::string(sizeof failure_mark, '\xfa'));
  const std::size_t header = sizeof failure_mark + sizeof(std::uint32_t);
  if (at != std::string::npos && left.size() > at + header)
    throw peer_failure(left.substr(at + header));
}

void oob_channel::tell_failure(const std::string& why) noexcept {
  try {
    const std::array<std::uint32_t, 2> header{failure_mark,
                                              htonl(static_cast<std::uint32_t>(why.size()))};
    send_bytes(std::as_bytes(std::span(header)));
    send_bytes(std::as_bytes(std::span(why)));
  } catch (const std::exception&) {
    return;  // the peer has gone already
  }
  ::shutdown(socket_.get(), SHUT_WR);
  // To close with unread bytes here would reset the connection, and the reason with it.
  std::array<char, 4096> part{};
  pollfd entry{socket_.get(), POLLIN, 0};
  while (::poll(&entry, 1, farewell_ms) > 0 &&
         ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT) > 0) {
  }
}

void oob_channel::receive_failure() {
  std::uint32_t length = 0;
  receive_bytes(std::as_writable_bytes(std::span(&length, 1)));
  length = std::min(ntohl(length), max_document);
  std::string why(length, '\0');
  receive_bytes(std::as_writable_bytes(std::span(why)));
  throw peer_failure(why);
}

std::string oob_channel::local_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  char text[NI_MAXHOST] = "";
  if (getsockname(socket_.get(), generic, &length) != 0 || address.ss_family == AF_UNIX ||
      getnameinfo(generic, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return {};
  std::string name = text;
  if (name.rfind("::ffff:", 0) == 0) name.erase(0, 7);
  return name == "::1" || name.rfind("127.", 0) == 0 ? std::string() : name;
}

void oob_channel::send_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(POLLOUT);
    } else {
      const int error = errno;
      look_for_reason();
      errno = error;
      fail("the peer closed the connection");
    }
  }
}

void oob_channel::receive_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      throw failure("the peer closed the connection");
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(POLLIN);
    } else {
      fail("the peer closed the connection");
    }
  }
}

void oob_channel::wait_for(short events) {
  const auto end = clock::now() + timeout_;
  const int slice_ms = idle_work_ ? static_cast<int>(pause_.count()) : 100;
  for (;;) {
    pollfd entry{socket_.get(), events, 0};
    if (::poll(&entry, 1, slice_ms) > 0) return;
    if (idle_work_) idle_work_();
    if (clock::now() > end)
      throw failure(fmt::format("the peer was silent for {} s", timeout_.count()));
    if (idle_work_ && slice_ms == 0) let_others_run();
  }
}

}  // namespace gaudi::common
