// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "fi/common/event_source.hpp"

namespace gaudi::fi {

/// The core's event queue behind one of ours that a connected or passive endpoint is bound to. What
/// it reports is translated: the application sees its own endpoints and infos. Not thread safe.
class core_events final : public event_source {
 public:
  /// See event_source::opener.
  static base::result<std::unique_ptr<event_source>> open(fid_fabric* fabric, std::size_t size,
                                                          bool waitable);

  [[nodiscard]] fid_eq* queue() const noexcept override { return queue_.get(); }
  [[nodiscard]] fid_fabric* fabric() const noexcept override { return fabric_; }
  [[nodiscard]] int wait_fd() const noexcept override { return wait_fd_; }

  ssize_t read(std::uint32_t* event, void* buf, std::size_t len,
               std::uint64_t flags) noexcept override;
  ssize_t read_error(fi_eq_err_entry* buf, std::uint64_t flags) noexcept override;
  int try_wait() noexcept override;

 private:
  core_events(fid_fabric* fabric, fid_eq* queue) noexcept : fabric_(fabric), queue_(queue) {}

  fid_fabric* fabric_;
  core::unique_fid<fid_eq> queue_;
  int wait_fd_ = -1;
};

}  // namespace gaudi::fi
