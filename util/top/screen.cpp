// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "screen.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace gaudi::top {
namespace {

// Terminals have known these since the VT100, and the second screen since xterm.
constexpr char enter_screen[] = "\033[?1049h\033[?25l";
constexpr char leave_screen[] = "\033[?25h\033[?1049l";
constexpr char home[] = "\033[H";
constexpr char clear_line[] = "\033[K";
constexpr char clear_rest[] = "\033[J";
constexpr char reverse[] = "\033[7m";
constexpr char plain[] = "\033[m";

bool has_attributes() {
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return (!no_colour || *no_colour == '\0') && terminal && std::strcmp(terminal, "dumb") != 0;
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH})
    sigaddset(&set, signal);
  return set;
}

}  // namespace

screen::screen() {
  const sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw std::runtime_error(fmt::format("signalfd failed: {}", std::strerror(errno)));
}

screen::~screen() {
  leave();
}

void screen::enter() {
  if (is_terminal_) return;
  if (::tcgetattr(STDIN_FILENO, &before_) != 0)
    throw std::runtime_error(
        fmt::format("failed to set up the terminal: {}", std::strerror(errno)));
  is_plain_ = !has_attributes();
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  is_terminal_ = true;
  print(enter_screen);
}

void screen::leave() {
  if (!is_terminal_) return;
  std::fputs(leave_screen, stdout);
  std::fflush(stdout);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  is_terminal_ = false;
}

std::optional<frame_size> screen::size() {
  winsize window{};
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return std::nullopt;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return frame_size{};
  return frame_size{window.ws_col, window.ws_row};
}

void screen::show(const std::vector<line>& lines) {
  enter();
  std::string text = home;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // No line feed behind the last one, which would scroll.
    if (i != 0) text += "\r\n";
    const bool is_marked = lines[i].is_heading && !is_plain_;
    text += (is_marked ? reverse + lines[i].text : lines[i].text) + clear_line;
    if (is_marked) text += plain;
  }
  print(text + clear_rest);
}

void screen::print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  // A reader that is gone ends the tool by SIGPIPE, a full disk here.
  if (std::fflush(stdout) != 0)
    throw std::runtime_error(fmt::format("failed to write the output: {}", std::strerror(errno)));
}

void screen::print(const std::vector<line>& lines) {
  std::string text;
  for (const line& l : lines) text += l.text + "\n";
  print(text);
}

event screen::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return event::timeout;
  if (info.ssi_signo == SIGWINCH) return event::redraw;
  if (info.ssi_signo != SIGTSTP) return event::quit;
  leave();
  ::raise(SIGSTOP);
  return event::redraw;
}

event screen::take_key() {
  char key = 0;
  if (::read(STDIN_FILENO, &key, 1) != 1) return event::quit;
  return key == 'q' || key == 'Q' ? event::quit : event::redraw;
}

event screen::wait(double seconds) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration<double>(seconds);
  std::array<pollfd, 2> sources{
      {{signals_.get(), POLLIN, 0}, {is_terminal_ ? STDIN_FILENO : -1, POLLIN, 0}}};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
    if (left <= 0) return event::timeout;
    const int ready = ::poll(sources.data(), sources.size(), static_cast<int>(left));
    if (ready > 0) return sources[0].revents != 0 ? take_signal() : take_key();
  }
}

}  // namespace gaudi::top
