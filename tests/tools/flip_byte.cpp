// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Preloaded into a process that reads others' memory (process_vm_readv(2)) into several buffers:
// in one of them a byte is wrong. So a test can see whether that buffer's bytes are looked at.
//   GAUDI_FLIP_BUFFERS  how many buffers there are; until a read into each was seen all are right
//   GAUDI_FLIP_PLACE    which of them, by address, gets the wrong byte (from 0)
//   GAUDI_FLIP_LENGTH   reads of another length are left alone
#include <dlfcn.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>

namespace {

using read_call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                              unsigned long);

std::size_t number(const char* name) {
  const char* text = getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

bool is_chosen(std::byte* address) {
  static const std::size_t buffers = number("GAUDI_FLIP_BUFFERS");
  static const std::size_t place = number("GAUDI_FLIP_PLACE");
  static std::mutex mutex;
  static std::set<std::byte*> seen;
  const std::lock_guard hold(mutex);
  if (seen.size() < buffers) {
    seen.insert(address);
    return false;
  }
  return seen.contains(address) && *std::next(seen.begin(), static_cast<long>(place)) == address;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] ssize_t process_vm_readv(pid_t pid, const iovec* local,
                                                                   unsigned long local_count,
                                                                   const iovec* remote,
                                                                   unsigned long remote_count,
                                                                   unsigned long flags) {
  static auto* const real = reinterpret_cast<read_call>(dlsym(RTLD_NEXT, "process_vm_readv"));
  static const std::size_t length = number("GAUDI_FLIP_LENGTH");
  const ssize_t done = real(pid, local, local_count, remote, remote_count, flags);
  if (done > 0 && local_count == 1 && local->iov_len == length) {
    auto* const first = static_cast<std::byte*>(local->iov_base);
    if (is_chosen(first)) *first ^= std::byte{1};
  }
  return done;
}
