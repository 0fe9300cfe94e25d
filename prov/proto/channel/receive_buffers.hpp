// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "core/inner_domain.hpp"
#include "proto/connection/connection.hpp"
#include "proto/connection/core_connector.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// The receive buffers of an endpoint, which all its peers share. Not thread safe: the caller holds
/// the domain lock.
///
/// Over RDMA they are posted to one context of the core's, for all connections: a NIC has to find a
/// buffer for whatever its peers have credits for. Another NIC has as many, from when a session is
/// first to go on over it. A stream waits in its socket: there a few are
/// enough, and each connection has its own, so that a buffer tells which connection its packet came
/// on, whatever the packet says.
class receive_buffers final : public receives_at_nics {
 public:
  /// `size` in bytes; `most`: buffers that peers of the core may have in use in all, not counting
  /// those that each peer has for certain: two over a stream, else what it has credits for.
  receive_buffers(core::inner_domain& core, std::size_t size, std::size_t most) noexcept;

  virtual ~receive_buffers() = default;
  receive_buffers(const receive_buffers&) = delete;
  receive_buffers& operator=(const receive_buffers&) = delete;

  /// How many receives may be posted to the core at once.
  [[nodiscard]] static std::size_t max_at_core(const core::inner_domain& core,
                                               std::size_t most) noexcept;

  /// Opens the shared context, where there is one, and posts to it. -FI_ENOMEM: there is no memory
  /// for buffers; other errors are the core's.
  base::result<void> open();
  /// The same at another NIC, which packets of all peers may come by from then on. After open(),
  /// over RDMA. Errors as there; throws std::bad_alloc.
  base::result<fid_ep*> open_at(reg::other_nic& nic) override;
  /// No buffer is the core's from here on. All connections are closed.
  void close() noexcept { contexts_.clear(); }
  /// As buffer_pool::free_all, once they are nobody's: open() may follow.
  void free_buffers() noexcept {
    pool_.free_all();
    posted_ = 0;
    out_ = 0;
  }
  /// Null over a stream.
  [[nodiscard]] fid_ep* context() const noexcept {
    return contexts_.empty() ? nullptr : contexts_.front().receives.get();
  }

  /// The core has filled one, or failed to: it is the caller's until give_back. `from`: where it
  /// was posted, if that connection is still there.
  void completed(const buffer& b, connection* from) noexcept {
    if (!streams_) {
      --posted_;
      --contexts_[b.endpoint].posted;
    } else if (from && from->receives.endpoint == b.endpoint) {
      --from->receives.posted;
    }
  }
  /// A buffer for a packet that does not come through the core; null when memory is short.
  [[nodiscard]] buffer* take_local() noexcept;
  void give_back(buffer& b);
  /// The same for one that has just come on this connection, which gets it again if it wants one.
  /// False: see post_more.
  [[nodiscard]] bool give_back(buffer& b, connection& c) {
    if (b.connection_id != 0 && c.receives.posted < share_ && c.ep && post(b, c)) return true;
    give_back(b);
    return b.connection_id == 0 || post_more(c);
  }

  /// Room for so many peers.
  void serve(std::size_t peers);
  /// Whether post_more would try to post for all.
  [[nodiscard]] bool short_of_posted() const noexcept { return posted_ < wanted_ && out_ < most_; }
  /// As many as the core has room for at present, up to those wanted.
  void post_more();

  /// As many as the connection shall have, the first two of them before it is up. False: there was
  /// no room for all; try again when has_room().
  [[nodiscard]] bool post_more(connection& c);
  [[nodiscard]] bool has_room() const noexcept { return out_ < most_; }
  /// How many the core has at most.
  [[nodiscard]] std::size_t out() const noexcept { return out_; }

 private:
  friend struct endpoint_audit;  // tests/sim

  /// Of the core's, over RDMA.
  struct posted_at {
    core::unique_fid<fid_ep> receives;
    reg::other_nic* nic;   // null: the domain's own
    std::size_t capacity;  // of it
    std::size_t wanted;    // posted at a time
    std::size_t posted = 0;
  };

  base::result<posted_at*> open_context(core::inner_domain& at, reg::other_nic* nic);
  void want(std::size_t of_each) noexcept;
  [[nodiscard]] std::size_t wanted_by(const connection& c) const noexcept;
  bool post(buffer& b);
  bool post(buffer& b, connection& c);

  core::inner_domain& core_;
  buffer_pool pool_;
  std::vector<posted_at> contexts_;
  const bool streams_;
  const std::size_t budget_;    // for all peers
  const std::size_t capacity_;  // that is asked of one of the core's receive contexts
  std::size_t most_;
  std::size_t needed_;      // posted at a time for all peers, over RDMA
  std::size_t wanted_ = 0;  // by all contexts
  std::size_t posted_ = 0;  // at present, over RDMA
  std::size_t out_ = 0;     // posted, or filled and not given back
  // Over a stream: posted for each connection, and how many may be out for more than two of them.
  std::size_t share_ = 0;
  std::size_t max_shared_ = 0;
};

}  // namespace gaudi::proto
