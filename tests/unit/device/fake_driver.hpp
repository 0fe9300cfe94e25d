// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "../hl/mock_library.hpp"

namespace gaudi::test {

/// One Gaudi, of itself a Gaudi2 with a few 768 MiB pages, behind a mocked library: just enough
/// state for allocations, mappings and exports to be refused as the driver refuses them.
/// Descriptors are real, so that close can be seen.
class fake_driver {
 public:
  static constexpr std::uint64_t page = 768ULL << 20;
  static constexpr std::uint64_t first_va = 0x1001001800000000;

  explicit fake_driver(unsigned pages = 8);
  ~fake_driver();
  fake_driver(const fake_driver&) = delete;
  fake_driver& operator=(const fake_driver&) = delete;

  testing::NiceMock<mock_library> library;
  std::string bus_id = "0000:19:00.0";
  std::uint32_t pci_id = 0x1020;
  std::uint64_t dram_base = first_va;
  std::uint64_t page_size = page;
  std::uint64_t alloc_page_size = 0;   ///< told beside page_size, as newer drivers do
  bool someone_holds_exports = false;  ///< as an importer would: unmap is refused
  std::atomic<hl::device_status> status = hl::device_status::operational;
  std::uint64_t openings = 1;  ///< of the compute node, by whomever

  std::shared_ptr<const hl::thunk> thunk() const {
    return std::make_shared<const hl::thunk>(mock_library::table(), "simulated Gaudi2");
  }
  /// Device memory, as the library is asked to.
  int unmap(std::uint64_t va) {
    if (!mapped_.contains(va) || someone_holds_exports) return refuse(EINVAL);
    mapped_.erase(va);
    return 0;
  }
  [[nodiscard]] unsigned pages_used() const {
    unsigned used = 0;
    for (const auto& [handle, count] : allocations_) used += count;
    return used;
  }
  [[nodiscard]] std::size_t mappings() const { return mapped_.size(); }
  [[nodiscard]] int open_descriptors() const { return open_; }

 private:
  static int refuse(int code) {
    errno = code;
    return -code;
  }

  void serve_opening();
  void serve_facts();
  void serve_memory();

  std::uint64_t allocate(std::uint64_t size);
  std::uint64_t map(std::uint64_t handle);
  int free(std::uint64_t handle);

  const unsigned pages_;
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, unsigned> allocations_;  // handle -> pages
  std::map<std::uint64_t, std::uint64_t> mapped_;  // va -> handle
  int open_ = 0;
};

}  // namespace gaudi::test
