// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace gaudi::topo::test {

/// A sysfs with the devices that a file of tests/unit/topo/servers lists, in a folder of its own
/// that goes with the object.
class recorded_sysfs {
 public:
  /// `server` is the file's name without ".txt"; empty: a machine without devices.
  explicit recorded_sysfs(const std::string& server = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "sysfs_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    root_ = name;
    if (!server.empty()) build(std::filesystem::path(GAUDI_RECORDED_SERVERS) / (server + ".txt"));
  }
  recorded_sysfs(const recorded_sysfs&) = delete;
  recorded_sysfs& operator=(const recorded_sysfs&) = delete;
  ~recorded_sysfs() { std::filesystem::remove_all(root_); }

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

  /// One line of such a file.
  void add(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    if (!(words >> kind) || kind.front() == '#') return;
    std::string numa = "-1";
    std::string module_id;
    std::string path;
    words >> name;
    for (std::string word; words >> word;) {
      if (word.starts_with("numa="))
        numa = word.substr(5);
      else if (word.starts_with("module="))
        module_id = word.substr(7);
      else
        path = word;
    }
    const auto function = root_ / "devices" / path;
    write(function / "numa_node", numa);
    link(root_ / "bus/pci/devices" / function.filename(), function);
    if (kind == "gaudi") {
      write(function / "vendor", "0x1da3");
      write(function / "module_id", module_id);
      link(root_ / "class/accel" / ("accel" + name) / "device", function);
    } else {
      link(root_ / "class" / (kind == "nic" ? "infiniband" : "net") / name / "device", function);
    }
  }

 private:
  void build(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error("no " + file.string());
    for (std::string line; std::getline(in, line);) add(line);
  }

  static void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  static void link(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::create_directories(from.parent_path());
    std::filesystem::create_directory_symlink(to, from);
  }

  std::filesystem::path root_;
};

}  // namespace gaudi::topo::test
