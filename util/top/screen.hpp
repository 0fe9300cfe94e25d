// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "base/scoped_fd.hpp"
#include "table.hpp"

namespace gaudi::top {

/// What ended a wait.
enum class event { timeout, redraw, quit };

/// Time and signals for all ways of output; a terminal's keys where there is one.
class screen {
 public:
  /// Takes nothing over yet. Throws std::runtime_error.
  screen();
  ~screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  /// None: standard input and output are not both a terminal.
  [[nodiscard]] static std::optional<frame_size> size();
  /// On the terminal, which it takes over, in the place of what was shown before.
  void show(const std::vector<line>& lines);
  /// Behind what was printed before. Throws std::runtime_error.
  static void print(const std::string& text);
  static void print(const std::vector<line>& lines);
  /// For `seconds` at most: until a key or signal that asks for something.
  event wait(double seconds);

 private:
  void enter();
  void leave();
  event take_signal();
  static event take_key();

  base::scoped_fd signals_;
  bool is_terminal_ = false;
  bool is_plain_ = false;  // no colours, no attributes
  termios before_{};
};

}  // namespace gaudi::top
