// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/process_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"

namespace gaudi::base {
namespace {

// Since Linux 5.1; the headers may be older.
constexpr int seal_future_write = 0x0010;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;

/// Field 22 of /proc/self/stat, the 20th behind the command's name, which may hold anything. 0: not
/// known.
std::uint64_t start_time_of_process() noexcept {
  const scoped_fd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
  const char* field = std::strrchr(text.data(), ')');
  for (int i = 0; field && i < 20; ++i) field = std::strchr(field + 1, ' ');
  return field ? std::strtoull(field, nullptr, 10) : 0;
}

}  // namespace

process_page::~process_page() {
  if (at_) ::munmap(at_, size_);
}

int process_page::map(const char* name, std::size_t size) noexcept {
  const int ret = make(name, size);
  if (ret != 0) memory_.reset();
  return ret;
}

int process_page::make(const char* name, std::size_t size) noexcept {
  memory_.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory_ || ::fchmod(memory_.get(), S_IRUSR | S_IWUSR) != 0 ||
      ::ftruncate(memory_.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(memory_.get(), F_ADD_SEALS, seals) != 0)
    return -errno;
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (at == MAP_FAILED) return -errno;
  // Readers only read. Older kernels do not know this seal.
  static_cast<void>(::fcntl(memory_.get(), F_ADD_SEALS, seal_future_write | F_SEAL_SEAL));
  at_ = at;
  size_ = size;
  return 0;
}

process_identity identity_of_this_process() noexcept {
  process_identity own{};
  own.pid = ::getpid();
  own.start_time = start_time_of_process();
  copy_text(own.command, ::program_invocation_short_name);
  const auto release = provider().version;
  static_cast<void>(std::snprintf(own.release.data(), own.release.size(), "%u.%u",
                                  FI_MAJOR(release), FI_MINOR(release)));
  return own;
}

void copy_text(char* to, std::size_t size, std::string_view from) noexcept {
  std::fill_n(to, size, '\0');
  std::copy_n(from.begin(), std::min(from.size(), size - 1), to);
}

}  // namespace gaudi::base
