// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "counters.hpp"

namespace gaudi::top {

/// A page, or why it is none.
struct page_result {
  std::optional<page> found;
  std::string error;
};

/// What a copy of a page says. It may have been written by anybody: nothing in it is believed that
/// leads outside of it, and its strings are made printable.
page_result parse_page(std::span<const std::byte> copy);

/// Copies and parses the page behind a descriptor of a memfd. A page that is being written is
/// copied again, for a while.
page_result read_page(int fd);

/// Of a memfd's bytes: whole 64-bit values, in their order. Throws std::runtime_error, with what is
/// the matter: it is no sealed memfd, or not of a size that a page has.
class mapped_page {
 public:
  /// `least`: bytes that it has at least.
  mapped_page(int fd, std::size_t least);
  ~mapped_page();
  mapped_page(const mapped_page&) = delete;
  mapped_page& operator=(const mapped_page&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::uint64_t word(std::size_t offset) const;
  void copy(std::size_t offset, std::span<std::byte> to) const;

 private:
  std::size_t size_ = 0;
  void* at_ = nullptr;
};

}  // namespace gaudi::top
