// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/event_set.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <cerrno>

namespace gaudi::base {

result<event_set> event_set::open() noexcept {
  scoped_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error{-errno};
  return event_set(std::move(epoll));
}

int event_set::add(int member) noexcept {
  epoll_event readable{};
  readable.events = EPOLLIN;
  readable.data.fd = member;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, member, &readable) == 0 ? 0 : -errno;
}

void event_set::remove(int member) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, member, nullptr);
}

ready_fds event_set::ready() const noexcept {
  std::array<epoll_event, ready_fds::max_count> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (count < 0) return ready_fds::any();
  ready_fds found(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < found.count_; ++i) found.fds_[i] = events[i].data.fd;
  return found;
}

bool wait_for_any(std::array<int, 2> fds, int timeout) {
  std::array<pollfd, 2> readable{};
  for (std::size_t i = 0; i < fds.size(); ++i)
    readable[i] = {.fd = fds[i], .events = POLLIN, .revents = 0};
  return ::poll(readable.data(), readable.size(), timeout) > 0;
}

}  // namespace gaudi::base
