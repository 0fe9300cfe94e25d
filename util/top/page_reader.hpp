// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
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

}  // namespace gaudi::top
