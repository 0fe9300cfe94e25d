// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "core/inner_domain.hpp"
#include "proto/buffer_pool.hpp"

namespace gaudi::proto {

/// The receive buffers of an endpoint, which all its peers share, and the core's receive context
/// that they are posted to. Not thread safe: the caller holds the domain lock.
///
/// A NIC has to find a buffer for whatever its peers have credits for, so there all are posted. A
/// stream waits in its socket: there a few are enough, and the one that came back last is posted
/// next, so that a conversation of short messages goes through memory that is in the cache.
class receive_buffers {
 public:
  /// `size` in bytes; `most`: buffers that peers of the core may have in use in all.
  receive_buffers(core::inner_domain& core, std::size_t size, std::size_t most) noexcept;

  /// Opens the receive context and posts the first buffers. -FI_ENOMEM: not one; other errors are
  /// the core's.
  base::result<void> open();
  /// No buffer is the core's from here on. All connections are closed.
  void close() noexcept { context_.reset(); }
  [[nodiscard]] fid_ep* context() const noexcept { return context_.get(); }

  /// The core has filled one, or failed to: it is the caller's until give_back.
  void completed() noexcept { --posted_; }
  /// A buffer for a packet that does not come through the core; null when memory is short.
  [[nodiscard]] buffer* take_local() noexcept;
  void give_back(buffer& b);

  /// Room for so many peers.
  void serve(std::size_t peers);
  /// Whether post_more would try to post.
  [[nodiscard]] bool short_of_posted() const noexcept { return posted_ < wanted_ && out_ < most_; }
  /// As many as the core has room for at present, up to those wanted.
  void post_more();

 private:
  friend struct endpoint_audit;  // tests/sim

  bool post(buffer& b);

  core::inner_domain& core_;
  buffer_pool pool_;
  core::unique_fid<fid_ep> context_;
  const std::size_t capacity_;  // of the core's receive context
  std::size_t most_;
  std::size_t wanted_;      // posted at a time
  std::size_t posted_ = 0;  // at present
  std::size_t out_ = 0;     // posted, or filled and not given back
};

}  // namespace gaudi::proto
