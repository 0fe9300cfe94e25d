// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sysfs_tree.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>

#include "bus_id.hpp"
#include "settings.hpp"

namespace hlsim {
namespace {

namespace fs = std::filesystem;

/// What is there already stays as it is, for who reads it now.
void put(const fs::path& file, const std::string& text) {
  std::string now;
  if (std::getline(std::ifstream(file), now) && now == text) return;
  std::ofstream(file) << text << '\n';
}

std::string hexadecimal(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%04x", number);
  return text;
}

void link(const fs::path& to, const fs::path& at) {
  fs::create_directories(at.parent_path());
  const fs::path target = fs::relative(to, at.parent_path());
  if (fs::is_symlink(at) && fs::read_symlink(at) == target) return;
  fs::remove(at);
  fs::create_directory_symlink(target, at);
}

uint32_t socket_of(uint32_t index) {
  return index * 2 / current_settings().devices;
}

/// Below the port of a switch, which every two share.
fs::path function_of(const fs::path& root, uint32_t index) {
  const char* const bridge = socket_of(index) == 0 ? "pci0000:10" : "pci0000:80";
  char port[32];
  std::snprintf(port, sizeof port, "0000:%s:%02x.0", bridge + 8, index / 2 + 1);
  return root / "devices" / bridge / port / bus_id_of(index);
}

void show_function(const fs::path& root, uint32_t index) {
  const fs::path function = function_of(root, index);
  fs::create_directories(function);
  put(function / "vendor", "0x1da3");
  put(function / "device", hexadecimal(configured_model().pci_device_id));
  put(function / "numa_node", std::to_string(socket_of(index)));
  put(function / "module_id", std::to_string(index));
  put(function / "pci_addr", bus_id_of(index));
  put(function / "status", "operational");
  link(function, root / "bus/pci/devices" / bus_id_of(index));
}

/// As from Linux 6.7 on: the facts are those of the function.
void show_node(const fs::path& root, uint32_t index) {
  const std::string name = "accel" + std::to_string(index);
  const fs::path function = function_of(root, index);
  const fs::path node = function / "accel" / name;
  fs::create_directories(node);
  link(function, node / "device");
  link(node, root / "class/accel" / name);
}

void show_all(const fs::path& root) {
  for (uint32_t index = 0; index < current_settings().devices; ++index) {
    show_function(root, index);
    show_node(root, index);
  }
}

}  // namespace

void show_sysfs_tree() {
  static std::once_flag shown;
  std::call_once(shown, [] {
    const std::string& root = current_settings().sysfs;
    if (root.empty()) return;
    try {
      show_all(root);
    } catch (const fs::filesystem_error& e) {
      std::fprintf(stderr, "hlsim: HLSIM_SYSFS=%s: %s\n", root.c_str(), e.what());
    }
  });
}

}  // namespace hlsim
