// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace gaudi::copy {

/// Zeroed, page-aligned host memory of our own that a device may write: not inherited by a child
/// process, since a copy-on-write page in the parent would no longer be the one that is pinned.
/// Move-only.
class host_pages {
 public:
  /// `len` is rounded up to whole pages. -FI_ENOMEM.
  static base::result<host_pages> allocate(std::size_t len);

  host_pages(host_pages&& other) noexcept;
  host_pages& operator=(host_pages&&) = delete;
  ~host_pages();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t len() const noexcept { return len_; }

 private:
  host_pages(std::byte* data, std::size_t len) noexcept : data_(data), len_(len) {}

  std::byte* data_;  // null when moved from
  std::size_t len_;
};

}  // namespace gaudi::copy
