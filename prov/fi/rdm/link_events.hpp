// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "fi/common/child_count.hpp"
#include "fi/common/eq.hpp"
#include "proto/peer/link_listener.hpp"

namespace gaudi::fi {

/// Posts what becomes of an endpoint's links to the event queue that is bound to it, where the
/// application has asked for that (FI_OPT_GAUDI_LINK_EVENTS, fi_gaudi_ext(3)).
///
/// Under the domain lock.
class link_events final : public proto::link_listener {
 public:
  /// `endpoint` outlives this.
  explicit link_events(const fid& endpoint) noexcept : endpoint_(endpoint) {}
  virtual ~link_events() = default;
  link_events(const link_events&) = delete;
  link_events& operator=(const link_events&) = delete;

  /// The last one bound counts. Stays open for this.
  void bind(event_queue& queue) {
    hold_ = child_count::ref(queue.bound());
    queue_ = &queue;
  }
  void want(bool wanted) noexcept { wanted_ = wanted; }
  [[nodiscard]] bool wanted() const noexcept { return wanted_; }

  void link_changed(const proto::link_change& change) noexcept override;

 private:
  const fid& endpoint_;
  child_count::ref hold_;
  event_queue* queue_ = nullptr;
  bool wanted_ = false;
  std::uint64_t missed_ = 0;  // since the last one that the queue has taken
};

}  // namespace gaudi::fi
