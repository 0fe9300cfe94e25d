// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gaudi::hl {
class thunk;
}  // namespace gaudi::hl

namespace gaudi::device {

/// PCI addresses of Gaudis as the kernel names them. Asked before libhl-thunk, whose own lookup
/// takes an odd-numbered card for its neighbour on newer kernels (prov/docs/device.md, 1.7). Knows
/// the class folders of all drivers: accel (6.2 and later) and habanalabs (before).
class sysfs {
 public:
  /// `root` is where sysfs is mounted; another folder in tests.
  explicit sysfs(std::string root = "/sys") : root_(std::move(root)) {}

  /// Nothing: there is no such device, or it is no Gaudi. "0000:19:00.0" otherwise.
  [[nodiscard]] std::optional<std::string> bus_id_of_index(int index) const;
  [[nodiscard]] std::optional<std::string> bus_id_of_module(std::uint32_t module_id) const;
  /// Of an open device node. Nothing: not a device node with a PCI function (the stand-in's are
  /// not).
  [[nodiscard]] std::optional<std::string> bus_id_of_fd(int fd) const;
  /// Whether the open device node is a control node, by the kernel's name for it, whatever it is
  /// called under /dev.
  [[nodiscard]] bool is_control(int fd) const;
  [[nodiscard]] std::optional<int> index_of_bus_id(const std::string& bus_id) const;

 private:
  [[nodiscard]] std::optional<std::string> node_folder(int index) const;
  [[nodiscard]] std::optional<std::string> entry_of_fd(int fd) const;

  std::string root_;
};

/// The PCI address of an open device, by what is surest: the kernel's names for a real one, else
/// the library's. A text in parentheses where it is not known.
std::string bus_id_of_fd(const hl::thunk& thunk, int fd);

}  // namespace gaudi::device
