// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/scoped_fd.hpp"

namespace gaudi::base {

/// Memory in which a process shows others something of itself: a memfd that its user and root can
/// open in /proc/PID/fd, and that only the process writes (on Linux 5.1 or later). The kernel ends
/// it with the process, however that ends.
class process_page {
 public:
  process_page() = default;
  ~process_page();
  process_page(const process_page&) = delete;
  process_page& operator=(const process_page&) = delete;

  /// Makes one of `size` bytes, all 0. 0, or -errno and there is none. Once.
  int map(const char* name, std::size_t size) noexcept;

  /// Null: there is none.
  [[nodiscard]] void* at() const noexcept { return at_; }
  [[nodiscard]] int fd() const noexcept { return memory_.get(); }

 private:
  int make(const char* name, std::size_t size) noexcept;

  scoped_fd memory_;
  void* at_ = nullptr;
  std::size_t size_ = 0;
};

/// What a page's header says of its process.
struct process_identity {
  std::int32_t pid;          ///< in the process's own PID namespace
  std::uint64_t start_time;  ///< as field 22 of /proc/PID/stat has it; 0: not known
  std::array<char, 16> command;
  std::array<char, 16> release;  ///< of the provider
};
process_identity identity_of_this_process() noexcept;

/// Cuts where it does not fit; a zero byte is always the last.
void copy_text(char* to, std::size_t size, std::string_view from) noexcept;
template <std::size_t Size>
void copy_text(std::array<char, Size>& to, std::string_view from) noexcept {
  copy_text(to.data(), Size, from);
}

}  // namespace gaudi::base
