// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"

namespace gaudi::fi {

/// What an event queue reads where none of its own events is left: the core's queue behind it. Not
/// thread safe.
class event_source {
 public:
  virtual ~event_source() = default;
  event_source(const event_source&) = delete;
  event_source& operator=(const event_source&) = delete;

  /// Opens one of the core's fabric for `size` events. `waitable`: with a file descriptor to sleep
  /// on. Throws std::bad_alloc.
  using opener = base::result<std::unique_ptr<event_source>> (*)(fid_fabric* core_fabric,
                                                                 std::size_t size, bool waitable);

  /// The core's.
  [[nodiscard]] virtual fid_eq* queue() const noexcept = 0;
  [[nodiscard]] virtual fid_fabric* fabric() const noexcept = 0;
  /// -1: not waitable.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;

  /// As fi_eq_read, fi_eq_readerr and fi_trywait.
  virtual ssize_t read(std::uint32_t* event, void* buf, std::size_t len,
                       std::uint64_t flags) noexcept = 0;
  virtual ssize_t read_error(fi_eq_err_entry* buf, std::uint64_t flags) noexcept = 0;
  virtual int try_wait() noexcept = 0;

 protected:
  event_source() = default;
};

}  // namespace gaudi::fi
