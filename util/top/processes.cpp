// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/scoped_fd.hpp"
#include "page_reader.hpp"

namespace gaudi::top {
namespace {

using base::scoped_fd;

struct close_folder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// The names in a folder that are numbers. `error`: 0, or why it could not be read.
std::vector<int> numbers_in(const std::string& folder, int& error) {
  std::vector<int> numbers;
  const std::unique_ptr<DIR, close_folder> open(::opendir(folder.c_str()));
  error = open ? 0 : errno;
  if (!open) return numbers;
  while (const dirent* entry = ::readdir(open.get())) {
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    int number = 0;
    const auto [rest, code] = std::from_chars(entry->d_name, end, number);
    if (code == std::errc{} && rest == end) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool is_memfd_named(const std::string& link, const char* memfd) {
  const std::string name = fmt::format("/memfd:{} (deleted)", memfd);
  std::array<char, 64> text{};
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  return length == static_cast<ssize_t>(name.size()) &&
         std::equal(name.begin(), name.end(), text.begin());
}

/// The file system that the kernel keeps memfds on. A file of that name on another one might be
/// anything, also one that takes for ever to open.
dev_t device_of_memfds() {
  static const dev_t device = [] {
    const scoped_fd own(::memfd_create("gaudi-top", MFD_CLOEXEC));
    struct stat facts {};
    return own && ::fstat(own.get(), &facts) == 0 ? facts.st_dev : dev_t{0};
  }();
  return device;
}

bool is_on_memfds_device(const std::string& link) {
  const scoped_fd path(::open(link.c_str(), O_PATH | O_CLOEXEC));
  struct statx facts {};
  if (!path || ::statx(path.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &facts) != 0)
    return false;
  return S_ISREG(facts.stx_mode) &&
         makedev(facts.stx_dev_major, facts.stx_dev_minor) == device_of_memfds();
}

/// Among the pages that a process has open may be some that it inherited by fork.
std::optional<page> page_of(const std::string& folder, int innermost_pid, std::string& why) {
  for (const scoped_fd& fd : open_pages(folder, base::counters::page_name, why)) {
    page_result read = read_page(fd.get());
    if (read.found && read.found->pid == innermost_pid) return std::move(read.found);
    if (!read.found) why = "its counters cannot be read: " + read.error;
  }
  return std::nullopt;
}

}  // namespace

std::optional<identity> identity_of(const std::string& folder) {
  std::ifstream status(folder + "/status");
  identity found;
  for (std::string line; std::getline(status, line);) {
    const std::string value = line.substr(std::min(line.size(), line.find('\t') + 1));
    const char* const end = value.data() + value.size();
    if (line.starts_with("State:") && !value.empty()) found.state = value[0];
    if (line.starts_with("Uid:")) std::from_chars(value.data(), end, found.uid);
    if (!line.starts_with("NSpid:")) continue;
    const std::size_t last = value.find_last_of('\t');
    std::from_chars(value.data() + (last == std::string::npos ? 0 : last + 1), end,
                    found.innermost_pid);
    return found;
  }
  return std::nullopt;
}

std::vector<scoped_fd> open_pages(const std::string& folder, const char* name, std::string& error) {
  std::vector<scoped_fd> found;
  error = "it shows no counters: it uses no provider gaudi, or has FI_GAUDI_COUNTERS=off";
  int failed = 0;
  const auto descriptors = numbers_in(folder + "/fd", failed);
  if (failed != 0) error = fmt::format("its files cannot be seen: {}", std::strerror(failed));
  for (const int number : descriptors) {
    const std::string link = fmt::format("{}/fd/{}", folder, number);
    if (!is_memfd_named(link, name) || !is_on_memfds_device(link)) continue;
    scoped_fd fd(::open(link.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd) found.push_back(std::move(fd));
  }
  return found;
}

std::vector<int> all_pids(const std::string& proc) {
  int error = 0;
  return numbers_in(proc, error);
}

std::vector<process> find_processes(const std::string& proc) {
  std::vector<process> all;
  int error = 0;
  for (const int pid : numbers_in(proc, error)) {
    process_result one = find_process(pid, proc);
    std::move(one.found.begin(), one.found.end(), std::back_inserter(all));
  }
  return all;
}

process_result find_process(pid_t pid, const std::string& proc) {
  const std::string folder = fmt::format("{}/{}", proc, pid);
  const auto who = identity_of(folder);
  if (!who) return {{}, fmt::format("no process {}", pid)};
  std::string why;
  auto counters = page_of(folder, who->innermost_pid, why);
  if (!counters) return {{}, fmt::format("process {}: {}", pid, why)};
  return {{{pid, who->uid, std::move(*counters)}}, ""};
}

}  // namespace gaudi::top
