// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Preloaded by hunt.sh --delays: now and then, at random, a thread sleeps before it takes a lock or
// makes a system call by which threads and processes meet. Orders of events that a quiet machine
// hardly ever shows come up soon that way.
//   GAUDI_CHAOS_SEED    what the delays are drawn from (default 1; each thread draws its own row)
//   GAUDI_CHAOS_ONE_IN  one call in so many is delayed (default 50)
//   GAUDI_CHAOS_US      by up to so many microseconds (default 3000)
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

/// A thread's place in a sequence of random numbers (splitmix64).
std::uint64_t next() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local std::uint64_t state = number("GAUDI_CHAOS_SEED", 1) * 0x9e3779b97f4a7c15u +
                                     (threads++ << 32) + static_cast<std::uint64_t>(getpid());
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void maybe_sleep() {
  static const std::uint64_t one_in = number("GAUDI_CHAOS_ONE_IN", 50);
  static const std::uint64_t longest = number("GAUDI_CHAOS_US", 3000);
  if (next() % one_in != 0) return;
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(next() % longest) * 1000};
  ::nanosleep(&time, nullptr);
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define GAUDI_CHAOS_EXPORT extern "C" __attribute__((visibility("default")))

GAUDI_CHAOS_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto call = real<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  maybe_sleep();
  return call(mutex);
}

GAUDI_CHAOS_EXPORT ssize_t send(int fd, const void* data, size_t length, int flags) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t, int)>("send");
  maybe_sleep();
  return call(fd, data, length, flags);
}

GAUDI_CHAOS_EXPORT ssize_t recv(int fd, void* data, size_t length, int flags) {
  static const auto call = real<ssize_t (*)(int, void*, size_t, int)>("recv");
  maybe_sleep();
  return call(fd, data, length, flags);
}

GAUDI_CHAOS_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto call = real<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  maybe_sleep();
  return call(fd, message, flags);
}

GAUDI_CHAOS_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static const auto call = real<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  maybe_sleep();
  return call(fd, message, flags);
}

GAUDI_CHAOS_EXPORT int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  static const auto call = real<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
  maybe_sleep();
  return call(fd, address, length, flags);
}

GAUDI_CHAOS_EXPORT int poll(pollfd* fds, nfds_t count, int timeout) {
  static const auto call = real<int (*)(pollfd*, nfds_t, int)>("poll");
  maybe_sleep();
  return call(fds, count, timeout);
}

GAUDI_CHAOS_EXPORT int epoll_wait(int fd, epoll_event* events, int count, int timeout) {
  static const auto call = real<int (*)(int, epoll_event*, int, int)>("epoll_wait");
  maybe_sleep();
  return call(fd, events, count, timeout);
}
