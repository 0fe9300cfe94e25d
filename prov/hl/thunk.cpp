// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hl/thunk.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/scoped_fd.hpp"

namespace gaudi::hl {
namespace {

using base::error;
using base::result;

/// For calls that say -errno, except that some say -1 and leave the cause in errno. -1 is also
/// -EPERM; errno tells, because the wrapper of the ioctl sets it as well.
int negative_code(int rc) {
  if (rc != -1) return rc;
  return errno != 0 ? -errno : -EPERM;
}

template <class... Params, class... Args>
result<int> call(int (*function)(Params...), Args... args) {
  if (function == nullptr) return error{-FI_ENOSYS};
  errno = 0;
  const int rc = function(args...);
  if (rc < 0) return error{negative_code(rc)};
  return rc;
}

template <class... Params, class... Args>
result<void> call_void(int (*function)(Params...), Args... args) {
  const auto rc = call(function, args...);
  return rc ? result<void>{} : rc.failure();
}

/// For calls that say 0 on failure. A cause that nobody named is reported as an I/O error.
template <class... Params, class... Args>
result<std::uint64_t> call_u64(std::uint64_t (*function)(Params...), Args... args) {
  errno = 0;
  const std::uint64_t value = function(args...);
  if (value == 0) return error{errno != 0 ? -errno : -FI_EIO};
  return value;
}

template <class T>
T field(const std::byte* info, std::size_t offset) {
  T value;
  std::memcpy(&value, info + offset, sizeof value);
  return value;
}

}  // namespace

thunk::thunk(const functions& table, std::string simulated)
    : table_(table), simulated_(std::move(simulated)) {}

result<int> thunk::open(const char* bus_id) const {
  return call(table_.open, device_name::dont_care, bus_id);
}

result<int> thunk::open_control(int index) const {
  return call(table_.open_control, index, static_cast<const char*>(nullptr));
}

result<int> thunk::open_control_by_module_id(std::uint32_t module_id) const {
  return call(table_.open_control_by_module_id, module_id);
}

void thunk::close(int fd) const noexcept {
  table_.close(fd);
}

result<std::uint32_t> thunk::device_id(int fd) const {
  const std::uint32_t id = table_.get_device_id_from_fd(fd);
  if (id == 0) return error{-FI_ENODEV};
  return id;
}

result<std::string> thunk::bus_id(int fd) const {
  std::array<char, 32> text{};
  const auto rc =
      call(table_.get_pci_bus_id_from_fd, fd, text.data(), static_cast<int>(text.size() - 1));
  if (!rc) return rc.failure();
  return std::string(text.data());
}

result<int> thunk::device_index(const std::string& bus_id) const {
  return call(table_.get_device_index_from_pci_bus_id, bus_id.c_str());
}

result<unsigned> thunk::device_count() const {
  const auto count = call(table_.get_device_count, device_name::dont_care);
  if (!count) return count.failure();
  return static_cast<unsigned>(*count);
}

result<hw_info> thunk::hardware(int fd) const {
  // The library's structure grows from release to release and the call takes no size, so it is
  // given far more room than any known release fills.
  alignas(16) std::array<std::byte, 4096> info{};
  const auto rc = call(table_.get_hw_ip_info, fd, static_cast<void*>(info.data()));
  if (!rc) return rc.failure();
  return hw_info{.dram_base = field<std::uint64_t>(info.data(), 8),
                 .dram_size = field<std::uint64_t>(info.data(), 16),
                 .dram_page_size = field<std::uint64_t>(info.data(), 224),
                 .alloc_page_size = field<std::uint64_t>(info.data(), 264),
                 .device_id = field<std::uint32_t>(info.data(), 32),
                 .module_id = field<std::uint32_t>(info.data(), 188)};
}

result<dram_usage> thunk::memory_usage(int fd) const {
  dram_usage usage;
  const auto rc = call(table_.get_dram_usage, fd, &usage);
  if (!rc) return rc.failure();
  return usage;
}

result<device_status> thunk::status(int fd) const {
  const auto status = static_cast<int>(table_.get_device_status_info(fd));
  if (status < 0) return error{status};
  return static_cast<device_status>(status);
}

result<bool> thunk::in_use(int fd) const {
  open_stats stats;
  const auto rc = call(table_.get_open_stats, fd, &stats);
  if (!rc) return rc.failure();
  return stats.is_compute_ctx_active != 0;
}

result<std::uint64_t> thunk::openings(int fd) const {
  open_stats stats;
  const auto rc = call(table_.get_open_stats, fd, &stats);
  if (!rc) return rc.failure();
  return stats.open_counter;
}

result<std::uint64_t> thunk::allocate(int fd, std::uint64_t size, bool contiguous) const {
  return call_u64(table_.device_memory_alloc, fd, size, std::uint64_t{0}, contiguous, false);
}

result<void> thunk::free(int fd, std::uint64_t handle) const {
  return call_void(table_.device_memory_free, fd, handle);
}

result<std::uint64_t> thunk::map(int fd, std::uint64_t handle) const {
  return call_u64(table_.device_memory_map, fd, handle, std::uint64_t{0});
}

result<std::uint64_t> thunk::map_host(int fd, void* ptr, std::uint64_t size) const {
  return call_u64(table_.host_memory_map, fd, ptr, std::uint64_t{0}, size);
}

result<void> thunk::unmap(int fd, std::uint64_t va) const {
  return call_void(table_.memory_unmap, fd, va);
}

result<int> thunk::export_dmabuf(int fd, std::uint64_t va, std::uint64_t size,
                                 std::uint64_t offset) const {
  if (table_.device_mapped_memory_export_dmabuf_fd == nullptr) return error{-FI_EOPNOTSUPP};
  return call(table_.device_mapped_memory_export_dmabuf_fd, fd, va, size, offset,
              std::uint32_t{O_RDWR | O_CLOEXEC});
}

result<int> thunk::export_physical(int fd, std::uint64_t addr, std::uint64_t size) const {
  if (table_.device_memory_export_dmabuf_fd == nullptr) return error{-FI_EOPNOTSUPP};
  return call(table_.device_memory_export_dmabuf_fd, fd, addr, size,
              std::uint32_t{O_RDWR | O_CLOEXEC});
}

result<std::uint64_t> thunk::request_commands(int fd, std::uint32_t size) const {
  std::uint64_t handle = 0;
  const auto rc = call(table_.request_command_buffer, fd, size, &handle);
  if (!rc) return rc.failure();
  return handle;
}

result<void> thunk::destroy_commands(int fd, std::uint64_t handle) const {
  return call_void(table_.destroy_command_buffer, fd, handle);
}

result<std::uint64_t> thunk::submit(int fd, const cs_chunk& chunk) const {
  cs_in in{.chunks_execute = &chunk, .num_execute = 1};
  cs_out out;
  const auto rc = call(table_.command_submission, fd, &in, &out);
  if (!rc) return rc.failure();
  return out.seq;
}

result<cs_status> thunk::wait(int fd, std::uint64_t seq, std::uint64_t timeout_us) const {
  std::uint32_t status = 0;  // the library writes it even when it fails: look at rc first
  const auto rc = call(table_.wait_for_cs, fd, seq, timeout_us, &status);
  if (!rc) return rc.failure();
  switch (static_cast<cs_status>(status)) {
    case cs_status::completed:
    case cs_status::busy:
      return static_cast<cs_status>(status);
    case cs_status::timed_out:
      return error{-FI_ETIMEDOUT};
    case cs_status::aborted:
      break;
  }
  return error{-FI_EIO};
}

result<void> thunk::flush_pci_writes(int fd) const {
  return call_void(table_.cs_flush_pci_hbw_writes, fd);
}

result<int> thunk::open_notifier(int fd) const {
  if (table_.notifier_recv == nullptr) return error{-FI_ENOSYS};
  return call(table_.notifier_create, fd);
}

result<std::uint64_t> thunk::take_events(int fd, int notifier) const {
  std::uint64_t events = 0;
  std::uint64_t count = 0;
  const auto rc =
      call(table_.notifier_recv, fd, notifier, &events, &count, std::uint32_t{0}, std::uint32_t{0});
  if (!rc) return rc.failure();
  return count != 0 ? events : 0;
}

bool device_fd::abandon() const noexcept {
  const base::scoped_fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return nothing && turn_to(nothing.get());
}

bool device_fd::turn_to(int other) const noexcept {
  return ::dup3(other, fd_, O_CLOEXEC) == fd_;
}

}  // namespace gaudi::hl
