// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace gaudi::proto::test {

/// What libfabric is given to log as a warning while this is there, in place of its log. One at a
/// time.
class logged_warnings {
 public:
  logged_warnings();
  ~logged_warnings();
  logged_warnings(const logged_warnings&) = delete;
  logged_warnings& operator=(const logged_warnings&) = delete;

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Forgets what there was.
  void clear() noexcept { text_.clear(); }

 private:
  std::string text_;
};

}  // namespace gaudi::proto::test
