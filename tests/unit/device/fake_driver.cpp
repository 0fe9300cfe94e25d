// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_driver.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace gaudi::test {
namespace {

int new_fd() {
  return memfd_create("fake-gaudi", MFD_CLOEXEC);
}

}  // namespace

fake_driver::fake_driver(unsigned pages) : pages_(pages) {
  serve_opening();
  serve_facts();
  serve_memory();
}

fake_driver::~fake_driver() = default;

std::uint64_t fake_driver::allocate(std::uint64_t size) {
  const auto count = static_cast<unsigned>((size + page_size - 1) / page_size);
  if (pages_used() + count > pages_) return static_cast<void>(errno = ENOMEM), 0;
  allocations_[++last_handle_] = count;
  return last_handle_;
}

std::uint64_t fake_driver::map(std::uint64_t handle) {
  std::uint64_t va = dram_base;
  for (const auto& [base, mapped] : mapped_) {
    if (base - va >= allocations_.at(handle) * page_size) break;
    va = base + allocations_.at(mapped) * page_size;
  }
  mapped_[va] = handle;
  return va;
}

int fake_driver::free(std::uint64_t handle) {
  for (const auto& [va, mapped] : mapped_)
    if (mapped == handle) return refuse(EINVAL);
  return allocations_.erase(handle) == 1 ? 0 : refuse(EINVAL);
}

void fake_driver::serve_opening() {
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

void fake_driver::serve_facts() {
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

void fake_driver::serve_memory() {
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
