// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "holders.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

using prefixes = std::pair<std::string_view, std::string_view>;  // control node, compute node
constexpr std::array<prefixes, 3> node_names{
    {{"accel_controlD", "accel"}, {"hl_controlD", "hl"}, {"control", "device"}}};

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

/// A node has other inodes in other containers, but the same number; the stand-in's are files.
bool is_same(const struct stat& a, const struct stat& b) {
  if (S_ISCHR(a.st_mode) || S_ISCHR(b.st_mode))
    return S_ISCHR(a.st_mode) && S_ISCHR(b.st_mode) && a.st_rdev == b.st_rdev;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Names are compared first: to look at a file of a dead network file system may take for ever.
bool is_open_at(const fs::path& descriptor, const fs::path& name, const struct stat& node) {
  std::error_code failure;
  if (fs::read_symlink(descriptor, failure).filename() != name) return false;
  struct stat found {};
  return ::stat(descriptor.c_str(), &found) == 0 && is_same(found, node);
}

bool holds(const fs::path& process, const fs::path& name, const struct stat& node) {
  std::error_code failure;
  fs::directory_iterator it(process / "fd", failure);
  for (const fs::directory_iterator end; !failure && it != end; it.increment(failure))
    if (is_open_at(it->path(), name, node)) return true;
  return false;
}

/// A process names itself as it likes: what a terminal or a parser of JSON may trip over goes.
std::string command_of(const fs::path& process) {
  std::ifstream in(process / "comm");
  std::string name;
  std::getline(in, name);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

/// Libraries are among the files that are mapped.
bool has_loaded(const fs::path& process, std::string_view library) {
  std::ifstream in(process / "maps");
  for (std::string line; std::getline(in, line);)
    if (fs::path(line).filename() == library) return true;
  return false;
}

}  // namespace

fs::path compute_node_of(const fs::path& control) {
  const std::string name = control.filename().string();
  for (const auto& [prefix, compute] : node_names) {
    if (!name.starts_with(prefix)) continue;
    const std::string index = name.substr(prefix.size());
    if (number_in(index)) return control.parent_path() / std::string(compute).append(index);
  }
  return {};
}

std::vector<holder> holders_of(const fs::path& node, const fs::path& proc) {
  std::vector<holder> found;
  struct stat wanted {};
  if (::stat(node.c_str(), &wanted) != 0) return found;
  std::error_code failure;
  fs::directory_iterator it(proc, failure);
  for (const fs::directory_iterator end; !failure && it != end; it.increment(failure)) {
    const auto pid = number_in(it->path().filename().string());
    if (pid && holds(it->path(), node.filename(), wanted))
      found.push_back({.pid = *pid,
                       .command = command_of(it->path()),
                       .synapse = has_loaded(it->path(), "libSynapse.so")});
  }
  std::sort(found.begin(), found.end(),
            [](const holder& a, const holder& b) { return a.pid < b.pid; });
  return found;
}

}  // namespace gaudi::info
