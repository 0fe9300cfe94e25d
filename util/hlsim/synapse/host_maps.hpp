// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>

namespace synsim {

/// The host memory that a device can reach, by its host addresses. Not thread safe.
class host_maps {
 public:
  explicit host_maps(int fd) : fd_(fd) {}
  /// Unmaps, and frees what was allocated here.
  ~host_maps();
  host_maps(const host_maps&) = delete;
  host_maps& operator=(const host_maps&) = delete;

  /// 0; -EEXIST: some mapping begins there; or -errno.
  int map(uint64_t host, uint64_t size);
  /// -EINVAL: none begins there, or it is of the other kind.
  int unmap(uint64_t host);
  /// Zeroed memory that is mapped; 0: none can be had.
  uint64_t allocate(uint64_t size);
  int free(uint64_t host);

  /// The device's address of [host, host + size), all in one mapping; 0: it is in none.
  [[nodiscard]] uint64_t translate(uint64_t host, uint64_t size) const;

 private:
  struct one {
    uint64_t size, va;
    bool own;  ///< allocated here
  };
  int add(uint64_t host, uint64_t size, bool own);
  int drop(uint64_t host, bool own);

  int fd_;
  std::map<uint64_t, one> maps_;
};

}  // namespace synsim
