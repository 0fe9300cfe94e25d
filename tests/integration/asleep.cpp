// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "asleep.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace gaudi::test {
namespace {

constexpr int looks_in_a_row = 30;
constexpr std::chrono::milliseconds between_looks{10};
constexpr std::chrono::seconds limit{30};

/// What proc(5) has of it: its name in parentheses, then the letter of its state. The stand-in's
/// own threads look at their device a hundred times a second; they are the driver here, not the
/// process.
bool is_asleep(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_ends = line.rfind(')');
  return name_ends == std::string::npos || line[name_ends + 2] == 'S' ||
         line.find("(hlsim-") != std::string::npos;
}

bool is_asleep(pid_t process) {
  std::error_code gone;
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task",
                                                    gone);
  const std::string self = std::to_string(gettid());
  return std::all_of(begin(threads), end(threads), [&](const auto& thread) {
    return thread.path().filename() == self || is_asleep(thread.path());
  });
}

}  // namespace

bool all_fall_asleep(const std::vector<pid_t>& processes) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int in_a_row = 0;
  while (in_a_row < looks_in_a_row && std::chrono::steady_clock::now() < deadline) {
    const bool asleep = std::all_of(processes.begin(), processes.end(),
                                    [](pid_t process) { return is_asleep(process); });
    in_a_row = asleep ? in_a_row + 1 : 0;
    std::this_thread::sleep_for(between_looks);
  }
  return in_a_row == looks_in_a_row;
}

}  // namespace gaudi::test
