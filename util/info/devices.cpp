// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fi_errno.h>

#include <string>
#include <system_error>
#include <utility>

#include "collect.hpp"
#include "device/generation.hpp"
#include "device/sysfs.hpp"
#include "holders.hpp"

namespace gaudi::info {
namespace {

constexpr int max_indices = 256;  // HLTHUNK_MAX_MINOR

/// An open control node.
class control_node {
 public:
  control_node(const hl::thunk& thunk, int fd) : thunk_(thunk), fd_(fd) {}
  control_node(const control_node&) = delete;
  control_node& operator=(const control_node&) = delete;
  ~control_node() { thunk_.close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  const hl::thunk& thunk_;
  int fd_;
};

const char* text_of(hl::device_status status) {
  switch (status) {
    case hl::device_status::operational:
      return "free";
    case hl::device_status::in_reset:
    case hl::device_status::in_reset_after_release:
      return "in reset";
    case hl::device_status::malfunction:
      return "malfunction";
    case hl::device_status::needs_reset:
      return "needs a reset";
    case hl::device_status::in_creation:
      return "starting";
  }
  return "unknown state";
}

void look_at_state(const hl::thunk& thunk, int fd, device_fact& fact) {
  const auto status = thunk.status(fd);
  fact.state = status ? text_of(*status) : fi_strerror(-status.code());
  if (!status || *status != hl::device_status::operational) return;
  const auto used = thunk.in_use(fd);
  fact.mode = used && *used ? owner_mode::other_process : owner_mode::owner;
  if (fact.mode == owner_mode::other_process) fact.state = "in use";
}

/// The path by which this process opened it.
std::filesystem::path path_of(int fd) {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), failure);
}

std::string name_of(const hl::thunk& thunk, int fd) {
  if (!thunk.simulated().empty()) return thunk.simulated();
  const auto id = thunk.device_id(fd);
  const auto* traits = id ? device::generation_of(*id) : nullptr;
  return traits ? traits->name : "unknown Gaudi";
}

bool copies(const hl::thunk& thunk, int fd) {
  const auto id = thunk.device_id(fd);
  const auto* traits = id ? device::generation_of(*id) : nullptr;
  return traits != nullptr && traits->copies;
}

device_fact look_at(const hl::thunk& thunk, int fd, int index, const std::filesystem::path& sysfs) {
  device_fact fact{
      .index = index, .name = name_of(thunk, fd), .bus_id = {}, .place = {}, .state = {}};
  fact.copies = copies(thunk, fd);
  look_at_state(thunk, fd, fact);
  if (thunk.simulated().empty()) {
    // Before the library, which takes an odd-numbered card for its neighbour on newer kernels.
    if (auto id = device::sysfs(sysfs.string()).bus_id_of_index(index)) fact.bus_id = *id;
    fact.place = topo::place_of_function(fact.bus_id, sysfs);
  }
  if (fact.bus_id.empty()) {
    const auto id = thunk.bus_id(fd);
    if (id) fact.bus_id = *id;
  }
  if (const auto hardware = thunk.hardware(fd)) {
    fact.module_id = hardware->module_id;
    fact.hbm_total = hardware->dram_size;
  }
  if (const auto usage = thunk.memory_usage(fd)) fact.hbm_free = usage->free_bytes;
  return fact;
}

}  // namespace

std::vector<device_fact> collect_devices(const hl::thunk& thunk, const std::filesystem::path& sysfs,
                                         const std::filesystem::path& proc) {
  std::vector<device_fact> found;
  const auto count = thunk.device_count();
  if (!count) return found;
  for (int index = 0; index < max_indices && found.size() < *count; ++index) {
    const auto fd = thunk.open_control(index);
    if (!fd) continue;  // indices may have gaps
    const control_node node(thunk, *fd);
    device_fact fact = look_at(thunk, node.fd(), index, sysfs);
    if (fact.mode == owner_mode::other_process)
      fact.holders = holders_of(compute_node_of(path_of(node.fd())), proc);
    found.push_back(std::move(fact));
  }
  return found;
}

}  // namespace gaudi::info
