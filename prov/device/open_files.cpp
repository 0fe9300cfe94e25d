// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/open_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace gaudi::device {
namespace {

namespace fs = std::filesystem;

struct folder_close {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

std::vector<int> descriptors_in(const fs::path& folder) {
  std::vector<int> found;
  const std::unique_ptr<DIR, folder_close> listing(::opendir(folder.c_str()));
  while (const dirent* const entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), fd);
    if (wrong == std::errc() && rest == name.data() + name.size()) found.push_back(fd);
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The name of the open file in its folder; that of a node may be another in a container.
std::string name_of(const fs::path& folder, int fd) {
  std::array<char, 512> target{};
  const ssize_t length =
      ::readlink((folder / std::to_string(fd)).c_str(), target.data(), target.size());
  if (length <= 0) return {};
  const std::string_view path(target.data(), static_cast<std::size_t>(length));
  return std::string(path.substr(path.rfind('/') + 1));
}

/// "device0"
bool is_name_of_stand_in(std::string_view name) {
  constexpr std::string_view prefix = "device";
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return false;
  return std::all_of(name.begin() + prefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The bus id of the device that is open for computing by `fd`.
std::optional<std::string> gaudi_behind(const hl::thunk& thunk, const std::optional<sysfs>& names,
                                        const fs::path& folder, int fd) {
  const std::string name = name_of(folder, fd);
  if (names) {
    const bool is_control = name.find("control") != std::string::npos || names->is_control(fd);
    return name.empty() || is_control ? std::nullopt : names->bus_id_of_fd(fd);
  }
  if (!is_name_of_stand_in(name)) return {};
  auto id = thunk.bus_id(fd);
  return id ? std::optional<std::string>(*std::move(id)) : std::nullopt;
}

bool is_same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

/// Nothing where the number stands for another file by now.
base::scoped_fd duplicate_of(int fd, const struct stat& expected) {
  base::scoped_fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  struct stat now {};
  if (!copy || (::fstat(copy.get(), &now) == 0 && is_same_file(now, expected))) return copy;
  // To close it would drop the process's POSIX locks on that file, so it stays open.
  static_cast<void>(copy.release());
  return {};
}

}  // namespace

bool is_control_node(const std::optional<sysfs>& names, int fd) {
  if (names) return names->is_control(fd);
  return name_of("/proc/self/fd", fd).starts_with("control");
}

// Only a Gaudi's descriptor is duplicated: to close a duplicate of any other file's would drop the
// process's POSIX locks on it.
std::vector<open_file> gaudis_open_here(const hl::thunk& thunk, const std::optional<sysfs>& names,
                                        const fs::path& folder) {
  std::vector<open_file> found;
  for (const int fd : descriptors_in(folder)) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0) continue;
    auto id = gaudi_behind(thunk, names, folder, fd);
    if (!id) continue;
    if (base::scoped_fd copy = duplicate_of(fd, facts))
      found.push_back({std::move(copy), *std::move(id)});
  }
  return found;
}

}  // namespace gaudi::device
