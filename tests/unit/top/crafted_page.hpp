// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/counters_layout.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::test {

/// A page as a process would have it, whose every byte a test may change.
class crafted_page {
 public:
  crafted_page() : bytes_(base::counters::page_size) {
    auto& h = header();
    h = {};
    h.magic = base::counters::magic;
    h.version = base::counters::version;
    h.header_size = base::counters::header_size;
    h.page_size = base::counters::page_size;
    h.block_size = sizeof(base::counters::block);
    h.block_count = base::counters::block_count;
    h.pid = ::getpid();
    put(h.command, "crafted");
  }

  base::counters::page_header& header() {
    return *reinterpret_cast<base::counters::page_header*>(bytes_.data());
  }
  base::counters::block& block(std::size_t i) {
    return *reinterpret_cast<base::counters::block*>(bytes_.data() + base::counters::header_size +
                                                     i * sizeof(base::counters::block));
  }
  base::counters::block& add(std::size_t i, base::counters::block_kind kind, std::string_view name,
                             std::string_view detail = "", std::int32_t number = -1) {
    auto& b = block(i);
    b.head.kind = kind;
    b.head.state = base::counters::block_state::open;
    b.head.value_count = base::counters::max_values;
    b.head.number = number;
    put(b.head.name, name);
    put(b.head.detail, detail);
    return b;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

  /// A memfd with these bytes, sealed as a process's is unless a test wants it otherwise.
  base::scoped_fd file(int seals = F_SEAL_SHRINK | F_SEAL_GROW,
                       const char* name = base::counters::page_name) const {
    base::scoped_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::write(fd.get(), bytes_.data(), bytes_.size()) != static_cast<ssize_t>(bytes_.size()))
      fd.reset();
    if (fd && seals != 0) ::fcntl(fd.get(), F_ADD_SEALS, seals);
    return fd;
  }

  template <std::size_t Size>
  static void put(std::array<char, Size>& to, std::string_view text) {
    to.fill('\0');
    std::copy_n(text.begin(), std::min(text.size(), Size), to.begin());
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace gaudi::test
