// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "hl/abi.hpp"

namespace gaudi::hl {

/// libhl-thunk's entry points as plain C function pointers (prov/docs/device.md, 1.3). A null
/// pointer means that this library does not have the function; only the ones marked optional may be
/// null.
struct functions {
  int (*open)(device_name name, const char* bus_id) = nullptr;
  int (*open_control)(int index, const char* bus_id) = nullptr;
  int (*open_control_by_module_id)(std::uint32_t module_id) = nullptr;  // optional
  int (*close)(int fd) = nullptr;
  std::uint32_t (*get_device_id_from_fd)(int fd) = nullptr;
  int (*get_pci_bus_id_from_fd)(int fd, char* text, int len) = nullptr;
  int (*get_device_index_from_pci_bus_id)(const char* bus_id) = nullptr;
  int (*get_device_count)(device_name name) = nullptr;
  int (*get_hw_ip_info)(int fd, void* info) = nullptr;
  int (*get_dram_usage)(int fd, dram_usage* usage) = nullptr;
  device_status (*get_device_status_info)(int fd) = nullptr;
  int (*get_open_stats)(int fd, open_stats* stats) = nullptr;  // optional
  std::uint64_t (*device_memory_alloc)(int fd, std::uint64_t size, std::uint64_t page_size,
                                       bool contiguous, bool shared) = nullptr;
  int (*device_memory_free)(int fd, std::uint64_t handle) = nullptr;
  std::uint64_t (*device_memory_map)(int fd, std::uint64_t handle, std::uint64_t hint) = nullptr;
  std::uint64_t (*host_memory_map)(int fd, void* ptr, std::uint64_t hint,
                                   std::uint64_t size) = nullptr;
  int (*memory_unmap)(int fd, std::uint64_t va) = nullptr;
  int (*device_mapped_memory_export_dmabuf_fd)(int fd, std::uint64_t addr, std::uint64_t size,
                                               std::uint64_t offset,
                                               std::uint32_t flags) = nullptr;  // optional
  int (*device_memory_export_dmabuf_fd)(int fd, std::uint64_t addr, std::uint64_t size,
                                        std::uint32_t flags) = nullptr;  // optional: Gaudi1
  int (*request_command_buffer)(int fd, std::uint32_t size,
                                std::uint64_t* handle) = nullptr;         // optional: Gaudi1
  int (*destroy_command_buffer)(int fd, std::uint64_t handle) = nullptr;  // optional: Gaudi1
  int (*command_submission)(int fd, cs_in* in, cs_out* out) = nullptr;
  int (*wait_for_cs)(int fd, std::uint64_t seq, std::uint64_t timeout_us,
                     std::uint32_t* status) = nullptr;
  int (*cs_flush_pci_hbw_writes)(int fd) = nullptr;  // optional
  int (*notifier_create)(int fd) = nullptr;          // optional
  int (*notifier_recv)(int fd, int notifier, std::uint64_t* events, std::uint64_t* count,
                       std::uint32_t flags, std::uint32_t timeout_ms) = nullptr;  // optional
};

/// The facts of hlthunk_get_hw_ip_info that the provider needs. Sizes in bytes.
struct hw_info {
  std::uint64_t dram_base = 0;
  std::uint64_t dram_size = 0;
  std::uint64_t dram_page_size = 0;
  std::uint64_t alloc_page_size = 0;  ///< of an allocation; 0: an older driver, dram_page_size
  std::uint32_t device_id = 0;
  std::uint32_t module_id = 0;
};

/// libhl-thunk behind one error convention: every call gives a value or a negative libfabric code
/// (libfabric's codes are errno's, so the driver's cause arrives unchanged). The library
/// answers failures in three ways (-errno; -1 with errno; 0 with errno), told apart here and
/// nowhere else (prov/docs/device.md, 1.4). Immutable; calls on one fd from several threads are
/// safe, since each is one ioctl that the driver serialises.
class thunk {
 public:
  /// Loads the library: `path` if not empty, else by soname, else from the vendor's folder. It is
  /// never unloaded, because it starts threads and keeps pointers into itself. -FI_ENOSYS: not
  /// found, or it lacks a function we need; one warning says which library was tried and how to
  /// name one.
  static base::result<std::shared_ptr<const thunk>> load(const std::string& path);

  /// A table from elsewhere (tests). `simulated` describes a stand-in, empty for the vendor's
  /// library.
  explicit thunk(const functions& table, std::string simulated = {});

  /// What the stand-in calls itself, e.g. "simulated Gaudi2"; empty for a real library.
  [[nodiscard]] const std::string& simulated() const noexcept { return simulated_; }

  /// Opens the compute node, exclusively in the whole machine; `bus_id` null: the first free
  /// device. The caller closes the descriptor with close(). -FI_EBUSY taken, -FI_EAGAIN in reset,
  /// -FI_EPERM malfunction, -FI_ENOENT no such device, -FI_EINVAL unknown bus id.
  [[nodiscard]] base::result<int> open(const char* bus_id) const;
  /// Opens the control node (information only), any number of times; `index` as in /dev/accel.
  [[nodiscard]] base::result<int> open_control(int index) const;
  /// As open_control, by module id. -FI_ENOSYS: an old library without that function.
  [[nodiscard]] base::result<int> open_control_by_module_id(std::uint32_t module_id) const;
  void close(int fd) const noexcept;

  /// The PCI device id; -FI_ENODEV: the descriptor is not a Gaudi's.
  [[nodiscard]] base::result<std::uint32_t> device_id(int fd) const;
  [[nodiscard]] base::result<std::string> bus_id(int fd) const;
  [[nodiscard]] base::result<int> device_index(const std::string& bus_id) const;
  [[nodiscard]] base::result<unsigned> device_count() const;
  [[nodiscard]] base::result<hw_info> hardware(int fd) const;
  [[nodiscard]] base::result<dram_usage> memory_usage(int fd) const;
  [[nodiscard]] base::result<device_status> status(int fd) const;
  /// Whether a process has the device open for computing; any node's descriptor will do.
  /// -FI_ENOSYS: an old library.
  [[nodiscard]] base::result<bool> in_use(int fd) const;
  /// How often the device has been opened for computing since its driver was loaded. As in_use.
  [[nodiscard]] base::result<std::uint64_t> openings(int fd) const;

  /// Allocates device memory, which the driver rounds up to its page; the value is a handle for
  /// free_memory and map_memory. Not for Gaudi1, whose library answers 0 always.
  [[nodiscard]] base::result<std::uint64_t> allocate(int fd, std::uint64_t size,
                                                     bool contiguous) const;
  [[nodiscard]] base::result<void> free(int fd, std::uint64_t handle) const;
  /// Gives an allocation a device address.
  [[nodiscard]] base::result<std::uint64_t> map(int fd, std::uint64_t handle) const;
  /// Pins host memory and gives it a device address with the same offset in its page.
  [[nodiscard]] base::result<std::uint64_t> map_host(int fd, void* ptr, std::uint64_t size) const;
  /// `va` exactly as map or map_host gave it. -FI_EINVAL also while an export of it lives.
  [[nodiscard]] base::result<void> unmap(int fd, std::uint64_t va) const;
  /// A dma-buf over [va + offset, va + offset + size) of a mapping that begins at `va`; the caller
  /// closes it. All three must be multiples of 4 KiB. -FI_EOPNOTSUPP: the driver or library cannot.
  [[nodiscard]] base::result<int> export_dmabuf(int fd, std::uint64_t va, std::uint64_t size,
                                                std::uint64_t offset) const;

  /// The same for memory at a physical address, which only a Gaudi1 has. Address and size must be
  /// multiples of 4 KiB; nothing keeps the memory from being used anew while the dma-buf lives.
  [[nodiscard]] base::result<int> export_physical(int fd, std::uint64_t addr,
                                                  std::uint64_t size) const;

  /// A command buffer of the driver's, `size` bytes (at most 2 MiB - 32), which Gaudi1's queues
  /// want: the value is the handle for submissions and for destroy_commands, and the offset at
  /// which the descriptor is to be mmapped. -FI_ENOSYS: a library without that function.
  [[nodiscard]] base::result<std::uint64_t> request_commands(int fd, std::uint32_t size) const;
  [[nodiscard]] base::result<void> destroy_commands(int fd, std::uint64_t handle) const;

  /// Starts one command buffer; the value is the sequence number to wait for. The library spins
  /// while 64 (Gaudi2; 16384 on Gaudi1) are in flight, so callers stay below that.
  [[nodiscard]] base::result<std::uint64_t> submit(int fd, const cs_chunk& chunk) const;
  /// The state of a submission after at most `timeout_us` (0: now). A timed-out or aborted
  /// submission is -FI_ETIMEDOUT or -FI_EIO.
  [[nodiscard]] base::result<cs_status> wait(int fd, std::uint64_t seq,
                                             std::uint64_t timeout_us) const;

  /// Returns when what others on the PCI bus have written to the device before is in its memory:
  /// the driver reads a register behind the same interface. -FI_ENOSYS, -FI_EOPNOTSUPP: this
  /// library, driver or generation cannot.
  [[nodiscard]] base::result<void> flush_pci_writes(int fd) const;

  /// A descriptor that is readable when something has happened to the device. The caller closes it.
  /// One for each open device: -FI_EINVAL, somebody has it. -FI_ENOSYS: this library has none.
  [[nodiscard]] base::result<int> open_notifier(int fd) const;
  /// What has happened since the last call: event_device_reset and others; 0: nothing.
  [[nodiscard]] base::result<std::uint64_t> take_events(int fd, int notifier) const;

 private:
  functions table_;
  std::string simulated_;
};

/// A device descriptor and how it ends: an owned one is closed through the library; of one that is
/// the application's there is a duplicate, which is closed here. Move-only.
class device_fd {
 public:
  static device_fd owned(std::shared_ptr<const thunk> library, int fd) {
    return {std::move(library), fd};
  }
  static device_fd duplicate(base::scoped_fd fd) {
    device_fd made({}, fd.get());
    made.duplicate_ = std::move(fd);
    return made;
  }
  device_fd(device_fd&& other) noexcept = default;
  device_fd& operator=(device_fd&&) = delete;
  ~device_fd() {
    if (library_) library_->close(fd_);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Lets go of the device now: as far as the driver is concerned the descriptor is closed, but its
  /// number stays taken, so that calls that come later fail and meet nobody else's file. False: it
  /// could not be done.
  [[nodiscard]] bool abandon() const noexcept;
  /// Has a duplicate stand for another descriptor, under its own number. False: it could not be
  /// done.
  [[nodiscard]] bool turn_to(int other) const noexcept;
  [[nodiscard]] bool is_owned() const noexcept { return library_ != nullptr; }

 private:
  device_fd(std::shared_ptr<const thunk> library, int fd) : library_(std::move(library)), fd_(fd) {}

  std::shared_ptr<const thunk> library_;  // null where it is a duplicate, or moved from
  base::scoped_fd duplicate_;             // fd_, where it is one
  int fd_;
};

}  // namespace gaudi::hl
