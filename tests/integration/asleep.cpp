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

/// What proc(5) has of it: its name in parentheses, then the letter of its state.
std::string stat_of(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_asleep(const std::filesystem::path& thread) {
  const std::string line = stat_of(thread);
  const std::size_t name_ends = line.rfind(')');
  return name_ends == std::string::npos || line[name_ends + 2] == 'S';
}

/// The stand-in's own threads look at their device a hundred times a second; they are the driver
/// here, not the process.
bool is_stand_ins(const std::filesystem::path& thread) {
  return stat_of(thread).find("(hlsim-") != std::string::npos;
}

/// Whether all threads of the process are, but for the calling one.
template <class Passed>
bool all_threads(pid_t process, Passed passed) {
  std::error_code gone;
  const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task",
                                                    gone);
  const std::string self = std::to_string(gettid());
  return std::all_of(begin(threads), end(threads), [&](const auto& thread) {
    return thread.path().filename() == self || passed(thread.path());
  });
}

}  // namespace

bool all_fall_asleep(const std::vector<pid_t>& processes) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int in_a_row = 0;
  while (in_a_row < looks_in_a_row && std::chrono::steady_clock::now() < deadline) {
    const bool asleep = std::all_of(processes.begin(), processes.end(), [](pid_t process) {
      return all_threads(
          process, [](const auto& thread) { return is_asleep(thread) || is_stand_ins(thread); });
    });
    in_a_row = asleep ? in_a_row + 1 : 0;
    std::this_thread::sleep_for(between_looks);
  }
  return in_a_row == looks_in_a_row;
}

void let_others_fall_asleep() {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!all_threads(::getpid(), [](const auto& thread) { return is_asleep(thread); }) &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
}

}  // namespace gaudi::test
