// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
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

  explicit fake_driver(unsigned pages = 8) : pages_(pages) { act_by_default(); }

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
  static int new_fd() { return memfd_create("fake-gaudi", MFD_CLOEXEC); }

  void act_by_default();
  void serve_opening();
  void serve_facts();
  void serve_memory();

  std::uint64_t allocate(std::uint64_t size) {
    const auto count = static_cast<unsigned>((size + page_size - 1) / page_size);
    if (pages_used() + count > pages_) return static_cast<void>(errno = ENOMEM), 0;
    allocations_[++last_handle_] = count;
    return last_handle_;
  }
  std::uint64_t map(std::uint64_t handle) {
    std::uint64_t va = dram_base;
    for (const auto& [base, mapped] : mapped_) {
      if (base - va >= allocations_.at(handle) * page_size) break;
      va = base + allocations_.at(mapped) * page_size;
    }
    mapped_[va] = handle;
    return va;
  }
  int free(std::uint64_t handle) {
    for (const auto& [va, mapped] : mapped_)
      if (mapped == handle) return refuse(EINVAL);
    return allocations_.erase(handle) == 1 ? 0 : refuse(EINVAL);
  }

  const unsigned pages_;
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, unsigned> allocations_;  // handle -> pages
  std::map<std::uint64_t, std::uint64_t> mapped_;  // va -> handle
  int open_ = 0;
};

inline void fake_driver::act_by_default() {
  serve_opening();
  serve_facts();
  serve_memory();
}

inline void fake_driver::serve_opening() {
  using testing::_;
  ON_CALL(library, open(_, _)).WillByDefault([this](hl::device_name, const char* id) {
    if (id != nullptr && id != bus_id) return refuse(EINVAL);
    ++open_;
    return new_fd();
  });
  ON_CALL(library, open_control(_, _)).WillByDefault([this](int index, const char*) {
    if (index != 0) return refuse(ENOENT);
    ++open_;
    return new_fd();
  });
  ON_CALL(library, open_control_by_module_id(_)).WillByDefault([](std::uint32_t) {
    return refuse(EBADF);
  });
  ON_CALL(library, close(_)).WillByDefault([this](int fd) {
    --open_;
    return ::close(fd);
  });
}

inline void fake_driver::serve_facts() {
  using testing::_;
  ON_CALL(library, get_device_count(_)).WillByDefault(testing::Return(1));
  ON_CALL(library, get_device_id_from_fd(_)).WillByDefault([this](int) { return pci_id; });
  ON_CALL(library, get_pci_bus_id_from_fd(_, _, _)).WillByDefault([this](int, char* text, int len) {
    std::strncpy(text, bus_id.c_str(), static_cast<std::size_t>(len));
    return 0;
  });
  ON_CALL(library, get_hw_ip_info(_, _)).WillByDefault([this](int, void* info) {
    const auto put = [&](int offset, auto value) {
      std::memcpy(static_cast<char*>(info) + offset, &value, sizeof value);
    };
    put(8, dram_base);
    put(16, pages_ * page_size);
    put(32, pci_id);
    put(188, std::uint32_t{5});
    put(224, page_size);
    put(264, alloc_page_size);
    return 0;
  });
  ON_CALL(library, get_device_status_info(_)).WillByDefault([this](int) { return status.load(); });
  ON_CALL(library, get_open_stats(_, _)).WillByDefault([this](int, hl::open_stats* stats) {
    stats->open_counter = openings;
    return 0;
  });
  ON_CALL(library, get_dram_usage(_, _)).WillByDefault([this](int, hl::dram_usage* usage) {
    usage->free_bytes = (pages_ - pages_used()) * page_size;
    return 0;
  });
}

inline void fake_driver::serve_memory() {
  using testing::_;
  ON_CALL(library, device_memory_alloc(_, _, _, _, _))
      .WillByDefault(
          [this](int, std::uint64_t size, std::uint64_t, bool, bool) { return allocate(size); });
  ON_CALL(library, device_memory_free(_, _)).WillByDefault([this](int, std::uint64_t handle) {
    return free(handle);
  });
  ON_CALL(library, device_memory_map(_, _, _))
      .WillByDefault([this](int, std::uint64_t handle, std::uint64_t) { return map(handle); });
  ON_CALL(library, memory_unmap(_, _)).WillByDefault([this](int, std::uint64_t va) {
    return unmap(va);
  });
  ON_CALL(library, export_physical(_, _, _, _))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t) { return new_fd(); });
  ON_CALL(library, export_dmabuf(_, _, _, _, _))
      .WillByDefault(
          [](int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t) { return new_fd(); });
}

}  // namespace gaudi::test
