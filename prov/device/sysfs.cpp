// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/sysfs.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

namespace gaudi::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* habana_vendor = "0x1da3";
constexpr int max_minor = 256;  // HLTHUNK_MAX_MINOR

std::string first_word(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// The name of the PCI function that a node's "device" link leads to, if Habana made it.
std::optional<std::string> gaudi_function(const fs::path& link) {
  if (first_word(link / "vendor") != habana_vendor) return {};
  std::error_code failure;
  const fs::path function = fs::canonical(link, failure);
  if (failure) return {};
  return function.filename().string();
}

}  // namespace

std::optional<std::string> sysfs::node_folder(int index) const {
  for (const char* prefix : {"/class/accel/accel", "/class/habanalabs/hl"}) {
    std::string folder = root_ + prefix + std::to_string(index);
    if (gaudi_function(folder + "/device")) return folder;
  }
  return {};
}

std::optional<std::string> sysfs::bus_id_of_index(int index) const {
  const auto folder = node_folder(index);
  return folder ? gaudi_function(*folder + "/device") : std::nullopt;
}

std::optional<std::string> sysfs::bus_id_of_module(std::uint32_t module_id) const {
  const std::string wanted = std::to_string(module_id);
  for (int index = 0; index < max_minor; ++index) {
    const auto folder = node_folder(index);
    // The attribute moved from the node to its PCI function in 6.7.
    if (folder && (first_word(*folder + "/device/module_id") == wanted ||
                   first_word(*folder + "/module_id") == wanted))
      return gaudi_function(*folder + "/device");
  }
  return {};
}

/// What sysfs has of an open character device.
std::optional<std::string> sysfs::entry_of_fd(int fd) const {
  struct stat node {};
  if (fstat(fd, &node) != 0 || !S_ISCHR(node.st_mode)) return {};
  return root_ + "/dev/char/" + std::to_string(major(node.st_rdev)) + ":" +
         std::to_string(minor(node.st_rdev));
}

std::optional<std::string> sysfs::bus_id_of_fd(int fd) const {
  const auto entry = entry_of_fd(fd);
  return entry ? gaudi_function(*entry + "/device") : std::nullopt;
}

// /sys/dev/char/M:m leads to the node's folder: accel_controlD0, or hl_controlD0.
bool sysfs::is_control(int fd) const {
  const auto entry = entry_of_fd(fd);
  if (!entry) return false;
  std::error_code failure;
  const fs::path node = fs::canonical(*entry, failure);
  return !failure && node.filename().string().find("control") != std::string::npos;
}

std::optional<int> sysfs::index_of_bus_id(const std::string& bus_id) const {
  for (int index = 0; index < max_minor; ++index)
    if (bus_id_of_index(index) == bus_id) return index;
  return {};
}

}  // namespace gaudi::device
