// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/open_files.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>

namespace gaudi::device {
namespace {

namespace fs = std::filesystem;

std::vector<int> descriptors_in(const fs::path& folder) {
  std::vector<int> found;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    int fd = -1;
    const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (wrong == std::errc() && rest == name.data() + name.size()) found.push_back(fd);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The name of the open file in its folder; that of a node may be another in a container.
std::string name_of(const fs::path& folder, int fd) {
  std::error_code failure;
  return fs::read_symlink(folder / std::to_string(fd), failure).filename().string();
}

/// "device0"
bool is_name_of_stand_in(std::string_view name) {
  constexpr std::string_view prefix = "device";
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  return std::all_of(name.begin() + prefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::optional<std::string> gaudi_behind(const hl::thunk& thunk, const std::optional<sysfs>& names,
                                        int fd) {
  if (names) return names->bus_id_of_fd(fd);
  auto id = thunk.bus_id(fd);
  return id ? std::optional<std::string>(*std::move(id)) : std::nullopt;
}

}  // namespace

// Each is duplicated before it is looked at: another thread may close the process's own meanwhile.
std::vector<open_file> gaudis_open_here(const hl::thunk& thunk, const std::optional<sysfs>& names,
                                        const fs::path& folder) {
  std::vector<open_file> found;
  for (const int fd : descriptors_in(folder)) {
    const std::string name = name_of(folder, fd);
    const bool may_be = names ? name.find("control") == std::string::npos && !name.empty()
                              : is_name_of_stand_in(name);
    if (!may_be) continue;
    base::scoped_fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) continue;
    if (auto id = gaudi_behind(thunk, names, copy.get()))
      found.push_back({std::move(copy), *std::move(id)});
  }
  return found;
}

}  // namespace gaudi::device
