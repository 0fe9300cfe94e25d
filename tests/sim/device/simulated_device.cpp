// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/device/simulated_device.hpp"

#include <fcntl.h>
#include <rdma/fi_domain.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "hl/thunk.hpp"

namespace gaudi::sim {

/// What the driver knows.
struct device_state : std::enable_shared_from_this<device_state> {
  device_state(network& n, const delay& d, std::size_t size)
      : net(n), copies(d), bytes(std::make_shared<std::vector<std::byte>>(size + for_provider)) {}

  static constexpr std::size_t for_provider = std::size_t{64} * 1024;  // behind the application's

  network& net;
  const delay copies;
  const std::shared_ptr<std::vector<std::byte>> bytes;
  unsigned number = 0;                            // among those that are there at the same time
  std::map<std::uint64_t, std::uint64_t> mapped;  // host memory: first byte, length
  struct submission {
    std::vector<hl::lin_dma> packets;
    bool has_ended = false;
  };
  std::map<std::uint64_t, submission> submissions;
  std::uint64_t last_submission = 0;
  bool is_in_reset = false;
};

namespace {

constexpr std::uint32_t pci_id = 0x1020;
constexpr std::uint64_t page = std::uint64_t{768} << 20;
constexpr std::uint64_t first_address = 0x1001001800000000;
constexpr std::uint64_t only_handle = 1;

// The library's functions know a device by its descriptor.
struct library {
  std::map<int, std::shared_ptr<device_state>> open;
  std::vector<std::shared_ptr<device_state>> by_number;  // null: that number is free
};

library& the_library() {
  static library one;
  return one;
}

device_state& state_of(int fd) {
  return *the_library().open.at(fd);
}

std::string bus_id_of(unsigned number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "5%03x:00:00.0", number);
  return text.data();
}

std::uint64_t refuse(int code) noexcept {
  errno = code;
  return 0;
}

// Where the packet's address is in this process; null: nowhere that the device may touch.
std::byte* place_of(const device_state& s, std::uint64_t address, std::uint64_t length) {
  if (device::is_device_address(address)) {
    const std::uint64_t at = address - first_address;
    return at < s.bytes->size() && length <= s.bytes->size() - at ? s.bytes->data() + at : nullptr;
  }
  auto above = s.mapped.upper_bound(address);
  if (above == s.mapped.begin()) return nullptr;
  const auto& [first, size] = *std::prev(above);
  return address - first < size && length <= size - (address - first)
             ? reinterpret_cast<std::byte*>(address)
             : nullptr;
}

void carry_out(device_state& s, std::uint64_t number) {
  const auto submitted = s.submissions.find(number);
  if (submitted == s.submissions.end() || std::exchange(submitted->second.has_ended, true)) return;
  if (s.is_in_reset) return;
  for (const hl::lin_dma& packet : submitted->second.packets) {
    const std::byte* const from = place_of(s, packet.src, packet.size);
    std::byte* const to = place_of(s, packet.dst, packet.size);
    if (!from || !to) return s.net.complain("a device was to copy what it does not reach");
    std::memmove(to, from, packet.size);
  }
}

int submit(int fd, hl::cs_in* in, hl::cs_out* out) {
  device_state& s = state_of(fd);
  if (s.is_in_reset) return s.net.numbers().chance(500) ? -EPERM : -EBUSY;
  const auto& chunk = *static_cast<const hl::cs_chunk*>(in->chunks_execute);
  const auto* const first = reinterpret_cast<const hl::lin_dma*>(chunk.cb_handle);
  out->seq = ++s.last_submission;
  s.submissions[out->seq].packets.assign(first, first + chunk.cb_size / sizeof(hl::lin_dma));
  s.net.after(s.copies, [it = s.weak_from_this(), number = out->seq] {
    if (const auto state = it.lock()) carry_out(*state, number);
  });
  return 0;
}

// Whoever waits, and does not only ask, stops the clock of this simulation.
int wait_for(int fd, std::uint64_t number, std::uint64_t timeout_us, std::uint32_t* status) {
  device_state& s = state_of(fd);
  *status = static_cast<std::uint32_t>(hl::cs_status::aborted);
  if (s.is_in_reset) return -EIO;
  if (timeout_us != 0) carry_out(s, number);
  const bool has_ended = s.submissions.at(number).has_ended;
  *status = static_cast<std::uint32_t>(has_ended ? hl::cs_status::completed : hl::cs_status::busy);
  if (has_ended) s.submissions.erase(number);
  return 0;
}

int hardware(int, void* info) {
  const auto put = [&](int offset, auto value) {
    std::memcpy(static_cast<char*>(info) + offset, &value, sizeof value);
  };
  put(8, first_address);
  put(16, page);
  put(32, pci_id);
  put(224, page);
  return 0;
}

int open_by(hl::device_name, const char* bus_id) {
  auto& all = the_library().by_number;
  for (unsigned n = 0; n < all.size(); ++n) {
    if (!all[n] || !bus_id || bus_id_of(n) != bus_id) continue;
    const int fd = ::memfd_create("simulated-gaudi", MFD_CLOEXEC);
    if (fd >= 0) the_library().open[fd] = all[n];
    return fd;
  }
  return -EINVAL;
}

// Whoever copies by a device keeps it open, also beyond the simulated_device.
int close_for(int fd) {
  the_library().by_number[state_of(fd).number] = nullptr;
  the_library().open.erase(fd);
  return ::close(fd);
}

int unmap(int fd, std::uint64_t address) {
  if (!device::is_device_address(address)) state_of(fd).mapped.erase(address);
  return 0;
}

// What a NIC knows it by: all of the mapping, of which only so many bytes are there.
int export_memory(int fd, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t) {
  device_state& s = state_of(fd);
  if (s.is_in_reset) return -EBUSY;
  const int exported = ::memfd_create("simulated-dmabuf", MFD_CLOEXEC);
  if (exported >= 0) s.net.exports(exported, s.bytes);
  return exported;
}

hl::functions functions_of_library() {
  hl::functions all;
  all.open = open_by;
  all.open_control = [](int, const char*) { return -ENOENT; };
  all.close = close_for;
  all.get_device_id_from_fd = [](int) { return pci_id; };
  all.get_pci_bus_id_from_fd = [](int fd, char* text, int length) {
    std::snprintf(text, static_cast<std::size_t>(length), "%s",
                  bus_id_of(state_of(fd).number).c_str());
    return 0;
  };
  all.get_device_index_from_pci_bus_id = [](const char*) { return 0; };
  all.get_device_count = [](hl::device_name) { return 1; };
  all.get_hw_ip_info = hardware;
  all.get_dram_usage = [](int, hl::dram_usage* usage) {
    usage->free_bytes = page;
    return 0;
  };
  all.get_device_status_info = [](int fd) {
    return state_of(fd).is_in_reset ? hl::device_status::in_reset : hl::device_status::operational;
  };
  all.device_memory_alloc = [](int, std::uint64_t size, std::uint64_t, bool, bool) {
    return size <= page ? only_handle : refuse(ENOMEM);
  };
  all.device_memory_free = [](int, std::uint64_t) { return 0; };
  all.device_memory_map = [](int, std::uint64_t, std::uint64_t) { return first_address; };
  all.host_memory_map = [](int fd, void* memory, std::uint64_t, std::uint64_t size) {
    if (state_of(fd).is_in_reset) return refuse(EBUSY);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    state_of(fd).mapped[address] = size;
    return address;
  };
  all.memory_unmap = unmap;
  all.device_mapped_memory_export_dmabuf_fd = export_memory;
  all.command_submission = submit;
  all.wait_for_cs = wait_for;
  return all;
}

// The lowest number that is free: names of devices stay few.
void plug_in(std::shared_ptr<device_state> s) {
  auto& all = the_library().by_number;
  auto place = std::find(all.begin(), all.end(), nullptr);
  if (place == all.end()) place = all.insert(all.end(), nullptr);
  s->number = static_cast<unsigned>(place - all.begin());
  *place = std::move(s);
}

}  // namespace

simulated_device::simulated_device(network& net, const delay& copies, std::size_t bytes)
    : state_(std::make_shared<device_state>(net, copies, bytes)) {
  plug_in(state_);
  static const auto thunk =
      std::make_shared<const hl::thunk>(functions_of_library(), "simulated Gaudi2");
  const auto named = device::device_spec::parse(bus_id_of(state_->number));
  gaudi_ = *device::device::open(thunk, *named);
  all_.address = *gaudi_->allocate(bytes);
  all_.length = bytes;
  all_.owner = gaudi_.get();
  all_.virtual_address = true;
  all_.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
}

bool simulated_device::make_known(reg::region& r, reg::dmabuf_registrar& to) const {
  const auto where = gaudi_->pin_in(r.pin, r.address, r.length);
  if (!where) return false;
  auto known = to.obtain(*gaudi_, *where, r.length, r.access);
  if (!known || !*known) return false;
  r.transfers = *std::move(known);
  r.transfer_access = r.access;
  return true;
}

simulated_device::~simulated_device() {
  all_.leave_core();
  all_.pin = {};
  static_cast<void>(gaudi_->free(all_.address));
}

// Of the copies under way some have been made.
void simulated_device::reset(bool is_told) {
  for (auto& [number, submitted] : state_->submissions)
    if (state_->net.numbers().chance(500)) carry_out(*state_, number);
  state_->is_in_reset = true;
  if (is_told) gaudi_->lose(-FI_EIO, "of a fault in this simulation");
}

std::span<std::byte> simulated_device::take(std::size_t bytes) noexcept {
  if (bytes > all_.length - taken_) return {};
  const auto all = std::span(*state_->bytes);
  return all.subspan(std::exchange(taken_, taken_ + bytes), bytes);
}

std::uint64_t simulated_device::address_of(const std::byte* taken) const noexcept {
  return all_.address + static_cast<std::uint64_t>(taken - state_->bytes->data());
}

proto::local_memory simulated_device::memory_of(std::span<std::byte> taken) const noexcept {
  return proto::local_memory::inside(all_, address_of(taken.data()), taken.size());
}

const std::shared_ptr<std::vector<std::byte>>& simulated_device::bytes() const noexcept {
  return state_->bytes;
}

}  // namespace gaudi::sim
