// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace gaudi::proto {

/// The file descriptors that tell a sleeping thread of work for an endpoint. Each is somebody
/// else's, who closes it. Not thread safe.
class wait_descriptors {
 public:
  /// Those of completion queues come first. Throw std::bad_alloc.
  void add_queue(int fd) {
    all_.push_back(fd);
    ++queues_;
  }
  void set_events(int fd) {
    all_.push_back(fd);
    ++events_;
  }
  void set_alarm(int fd) { all_.push_back(fd); }

  [[nodiscard]] const std::vector<int>& all() const noexcept { return all_; }
  /// Readable behind a completion that they were armed for.
  [[nodiscard]] std::span<const int> queues() const noexcept {
    return std::span(all_).first(queues_);
  }
  /// Readable while the core has something to tell of connections.
  [[nodiscard]] std::span<const int> events() const noexcept {
    return std::span(all_).subspan(queues_, events_);
  }
  /// Readable from when it has rung until it is set again.
  [[nodiscard]] std::span<const int> alarm() const noexcept {
    return std::span(all_).subspan(queues_ + events_);
  }

  void clear() noexcept { *this = {}; }

 private:
  std::vector<int> all_;
  std::size_t queues_ = 0;
  std::size_t events_ = 0;
};

}  // namespace gaudi::proto
