// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "node.hpp"

namespace gaudi::test {

inline constexpr std::size_t long_message = std::size_t{1} << 20;

inline nlohmann::json why(pid_t pid) {
  const std::string command = GAUDI_TOP " --json --why " + std::to_string(pid);
  FILE* const pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe)) text += part.data();
  if (!pipe || ::pclose(pipe) != 0) throw std::runtime_error("gaudi_top failed: " + command);
  return nlohmann::json::parse(text);
}

/// Asks until the answer is as it is to be, as a process needs its time to get there, and its page
/// may be a moment old; what it said at last.
inline nlohmann::json ask_until(pid_t pid, const std::function<bool(const nlohmann::json&)>& is_so,
                                const std::function<void()>& work) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  nlohmann::json said;
  do {
    for (int i = 0; i < 100; ++i) work();
    said = why(pid);
  } while (!is_so(said) && std::chrono::steady_clock::now() < end);
  EXPECT_TRUE(is_so(said)) << said.dump();
  return said;
}

/// Until that is the culprit; the verdict.
inline std::string ask_until(pid_t pid, const std::string& culprit,
                             const std::function<void()>& work) {
  const auto is_so = [&](const nlohmann::json& said) { return said.at("culprit") == culprit; };
  const nlohmann::json said = ask_until(pid, is_so, work);
  EXPECT_EQ(said.at("culprit"), culprit);
  return said.at("verdict");
}

/// Until something of the process waits for that.
inline nlohmann::json ask_until_waits(pid_t pid, const std::string& what,
                                      const std::function<void()>& work) {
  const auto is_so = [&](const nlohmann::json& said) {
    for (const char* list : {"operations", "connections"})
      for (const auto& one : said.at(list))
        if (one.at("waits_for") == what) return true;
    return false;
  };
  return ask_until(pid, is_so, work);
}

/// Two ranks that have exchanged a message, so that they are connected, and the PIDs of both.
struct two_processes {
  explicit two_processes(rank& r, const node_options& options = {}) : n(options) {
    n.meet(r);
    const auto texts = r.all_gather(std::to_string(::getpid()));
    for (const std::string& text : texts) pids.push_back(std::stoi(text));
    std::byte one{};
    if (r.id() == 0)
      n.post([&] { return fi_tsend(n.ep(), &one, 1, nullptr, n.peer(1), 1, ctx(1)); });
    else
      n.post([&] { return fi_trecv(n.ep(), &one, 1, nullptr, n.peer(0), 1, 0, ctx(1)); });
    n.wait(ctx(1));
    r.barrier();
  }
  void send_long(std::vector<std::byte>& from) {
    n.post(
        [&] { return fi_tsend(n.ep(), from.data(), from.size(), nullptr, n.peer(1), 2, ctx(2)); });
  }
  void receive_long(std::vector<std::byte>& to) {
    n.post(
        [&] { return fi_trecv(n.ep(), to.data(), to.size(), nullptr, n.peer(0), 2, 0, ctx(2)); });
    EXPECT_EQ(n.wait(ctx(2)).err, 0);
  }
  node n;
  std::vector<pid_t> pids;
};

}  // namespace gaudi::test
