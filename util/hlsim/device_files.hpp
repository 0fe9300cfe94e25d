// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/scoped_fd.hpp"
#include "model.hpp"
#include "shared_state.hpp"

namespace hlsim {

using gaudi::base::scoped_fd;

/// Owns a shared mapping of a device_state. Move-only.
class state_mapping {
 public:
  state_mapping() = default;
  /// Maps the file behind `fd`; empty when that fails. The mapping keeps `fd`'s open file
  /// description, and so its lock, alive: never pass the fd of a compute node that the user holds.
  explicit state_mapping(int fd) noexcept;
  state_mapping(state_mapping&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  state_mapping& operator=(state_mapping&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~state_mapping();

  explicit operator bool() const noexcept { return state_ != nullptr; }
  device_state& operator*() const noexcept { return *state_; }
  device_state* operator->() const noexcept { return state_; }

 private:
  device_state* state_ = nullptr;
};

/// Serialises opening, closing and creating of device files between processes, for its lifetime.
class folder_lock {
 public:
  folder_lock();

  /// 0, or -errno: the lock could not be had, as no descriptor is left.
  [[nodiscard]] int failure() const noexcept { return failure_; }

 private:
  scoped_fd fd_;
  int failure_ = 0;
};

std::string device_path(uint32_t index);
std::string control_path(uint32_t index);

/// Whether somebody holds the lock of that file: has the compute node open. True also where that
/// cannot be told.
bool is_locked(const std::string& path);

/// Creates the files of device `index` where they are missing, or of another build or kind.
/// The caller holds a folder_lock. 0 or -errno (-EBUSY: a process of another build has the device
/// open, or one that simulates another kind).
int ensure_device_files(uint32_t index);

/// Sets the sizes of HBM as HLSIM_HBM and HLSIM_HBM_PAGE ask, within what device_state has room
/// for. No context may be active.
void choose_hbm(device_state& state, const model& m);

/// Copies the identity (the members before the mutex) of the device file behind `fd` into `id`.
/// False when `fd` is not one.
bool read_identity(int fd, device_state& id) noexcept;

/// Bytes of a device_state that identify it.
inline constexpr size_t identity_bytes = offsetof(device_state, mutex);

}  // namespace hlsim
