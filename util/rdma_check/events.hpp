// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/rdma_cma.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace gaudi::rdma_check {

struct event_acknowledge {
  void operator()(rdma_cm_event* event) const { rdma_ack_cm_event(event); }
};
/// An event; its id cannot be destroyed nor moved while this lives.
using event_ptr = std::unique_ptr<rdma_cm_event, event_acknowledge>;

struct id_destroy {
  void operator()(rdma_cm_id* id) const { rdma_destroy_id(id); }
};
using id_ptr = std::unique_ptr<rdma_cm_id, id_destroy>;

/// Where the connection manager reports what happens to ids. Outlives its ids. Movable.
class event_channel {
 public:
  /// A failure (no_connection) where this machine has no connection manager for RDMA.
  event_channel();

  id_ptr make_id() const;
  /// Takes an id over from another channel. Its events must have been acknowledged.
  void adopt(rdma_cm_id* id) const;

  /// The next event; null: none within `limit` (nullopt: no limit).
  event_ptr next(std::optional<std::chrono::milliseconds> limit) const;

 private:
  struct destroy {
    void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
  };
  std::unique_ptr<rdma_event_channel, destroy> channel_;
};

/// Says what the event means, with the reason where it carries one.
std::string describe(const rdma_cm_event& event);

/// A failure (no_connection) that names `what` and the value of errno.
[[noreturn]] void fail_with_errno(const std::string& what);

/// A failure (no_connection) unless this machine has an RDMA device.
void require_rdma_device();

}  // namespace gaudi::rdma_check
