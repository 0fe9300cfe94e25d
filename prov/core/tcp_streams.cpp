// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/tcp_streams.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace gaudi::core {
namespace {

using std::chrono::milliseconds;

struct question {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

void set_ends(inet_diag_sockid& id, const sockaddr_in& here, const sockaddr_in& peer) noexcept {
  id.idiag_sport = here.sin_port;
  id.idiag_dport = peer.sin_port;
  id.idiag_src[0] = here.sin_addr.s_addr;
  id.idiag_dst[0] = peer.sin_addr.s_addr;
}

void set_ends(inet_diag_sockid& id, const sockaddr_in6& here, const sockaddr_in6& peer) noexcept {
  id.idiag_sport = here.sin6_port;
  id.idiag_dport = peer.sin6_port;
  std::memcpy(id.idiag_src, &here.sin6_addr, sizeof here.sin6_addr);
  std::memcpy(id.idiag_dst, &peer.sin6_addr, sizeof peer.sin6_addr);
  id.idiag_if = here.sin6_scope_id;
}

template <class Address>
Address as(const sockaddr& any) noexcept {
  Address one;
  std::memcpy(&one, &any, sizeof one);
  return one;
}

// The kernel doubles the time between two attempts with each one: by the present one it is known
// when the first was.
milliseconds since_first_attempt(const tcp_info& tcp) noexcept {
  const auto present = std::chrono::microseconds(tcp.tcpi_rto);
  const unsigned doubled = std::min<unsigned>(tcp.tcpi_backoff, 31);
  return std::chrono::duration_cast<milliseconds>(present - present / (std::int64_t{1} << doubled));
}

// Of a connection that was idle the last acknowledgement may be old, and of one that the peer takes
// nothing from there is nothing to acknowledge, though the kernel asks it again and again.
milliseconds unacknowledged(const tcp_info& tcp) noexcept {
  if (tcp.tcpi_unacked == 0) return milliseconds(0);
  return std::min(since_first_attempt(tcp), milliseconds(tcp.tcpi_last_ack_recv));
}

milliseconds read_attributes(const nlmsghdr& answer) noexcept {
  const auto* const found = static_cast<const inet_diag_msg*>(NLMSG_DATA(&answer));
  auto left = static_cast<int>(NLMSG_PAYLOAD(&answer, sizeof *found));
  const auto* one = reinterpret_cast<const rtattr*>(found + 1);
  for (; RTA_OK(one, left); one = RTA_NEXT(one, left)) {
    if (one->rta_type != INET_DIAG_INFO) continue;
    tcp_info tcp{};
    std::memcpy(&tcp, RTA_DATA(one), std::min<std::size_t>(RTA_PAYLOAD(one), sizeof tcp));
    return unacknowledged(tcp);
  }
  return milliseconds(0);
}

}  // namespace

milliseconds tcp_streams::unacknowledged_for(fid_ep& connection) noexcept {
  sockaddr_storage here{};
  sockaddr_storage peer{};
  std::size_t length = sizeof here;
  if (cannot_ask_ || fi_getname(&connection.fid, &here, &length)) return milliseconds(0);
  length = sizeof peer;
  if (fi_getpeer(&connection, &peer, &length)) return milliseconds(0);
  const bool has_asked =
      ask(reinterpret_cast<const sockaddr&>(here), reinterpret_cast<const sockaddr&>(peer));
  return has_asked ? answer() : milliseconds(0);
}

bool tcp_streams::ask(const sockaddr& here, const sockaddr& peer) noexcept {
  if (!kernel_)
    kernel_ = base::scoped_fd(
        ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  question q{};
  q.head = {.nlmsg_len = sizeof q,
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
            .nlmsg_seq = ++asked_,
            .nlmsg_pid = 0};
  q.body.sdiag_family = static_cast<std::uint8_t>(here.sa_family);
  q.body.sdiag_protocol = IPPROTO_TCP;
  q.body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  q.body.idiag_states = ~0U;
  q.body.id.idiag_cookie[0] = q.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (here.sa_family == AF_INET)
    set_ends(q.body.id, as<sockaddr_in>(here), as<sockaddr_in>(peer));
  else
    set_ends(q.body.id, as<sockaddr_in6>(here), as<sockaddr_in6>(peer));
  if (kernel_ && ::send(kernel_.get(), &q, sizeof q, 0) == sizeof q) return true;
  cannot_ask_ = true;
  GAUDI_INFO(EP_CTRL,
             "cannot ask the kernel for silent tcp connections (sock_diag: %s): a link that is "
             "down is noticed late\n",
             std::strerror(errno));
  return false;
}

// It is there when the question was sent. One that nobody read before may stand in front of it.
milliseconds tcp_streams::answer() const noexcept {
  alignas(nlmsghdr) std::array<std::byte, 4096> space;
  for (;;) {
    const ssize_t got = ::recv(kernel_.get(), space.data(), space.size(), 0);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return milliseconds(0);
    const auto& head = *reinterpret_cast<const nlmsghdr*>(space.data());
    if (!NLMSG_OK(&head, static_cast<std::size_t>(got)) || head.nlmsg_seq != asked_) continue;
    return head.nlmsg_type == SOCK_DIAG_BY_FAMILY ? read_attributes(head) : milliseconds(0);
  }
}

}  // namespace gaudi::core
