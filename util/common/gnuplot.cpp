// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>
#include <utility>

#include "failure.hpp"

namespace gaudi::common {
namespace {

class file_descriptor {
 public:
  file_descriptor(int fd, const std::string& what) : fd_(fd) {
    if (fd_ < 0) throw failure(fmt::format("{}: {}", what, std::strerror(errno)));
  }
  file_descriptor(file_descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~file_descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

file_descriptor create(const std::filesystem::path& file) {
  return {open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
          fmt::format("--plot: failed to create {}", file.string())};
}

// A file in memory, which gnuplot reads at its own pace: with a pipe either side could wait for the
// other.
file_descriptor in_memory(std::string_view text) {
  file_descriptor file(memfd_create("gnuplot-script", MFD_CLOEXEC),
                       "--plot: failed to allocate memory");
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written < 0)
      throw failure(fmt::format("--plot: failed to pass the data on: {}", std::strerror(errno)));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

// gnuplot's exit status; its messages go to stderr.
int run(const std::filesystem::path& gnuplot, const file_descriptor& in,
        const file_descriptor& out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  std::string name = "gnuplot";
  std::string from_stdin = "-";
  const std::array<char*, 3> arguments{name.data(), from_stdin.data(), nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, gnuplot.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    throw failure(
        fmt::format("--plot: failed to start {}: {}", gnuplot.string(), std::strerror(failed)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw failure(fmt::format("--plot: failed to wait for gnuplot: {}", std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::filesystem::path find_gnuplot() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    auto program = std::filesystem::path(folder) / "gnuplot";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  throw failure(
      "--plot: gnuplot is not on PATH (install the package gnuplot-nox, or gnuplot where there is "
      "no such)");
}

std::string gnuplot_string(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += '\'';
    quoted += c == '\n' || c == '\r' ? ' ' : c;
  }
  return quoted + '\'';
}

svg_plot::svg_plot(std::filesystem::path file)
    : gnuplot_(find_gnuplot()),
      file_(std::move(file)),
      unfinished_(file_.string() + ".unfinished") {
  create(unfinished_);
}

svg_plot::~svg_plot() {
  unlink(unfinished_.c_str());
}

void svg_plot::draw(std::string_view script) {
  const int status = run(gnuplot_, in_memory(script), create(unfinished_));
  if (status != 0)
    throw failure(fmt::format("--plot: {} failed (exit status {})", gnuplot_.string(), status));
  std::error_code error;
  std::filesystem::rename(unfinished_, file_, error);
  if (error)
    throw failure(fmt::format("--plot: failed to write {}: {}", file_.string(), error.message()));
}

}  // namespace gaudi::common
