// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_rma.h>

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/object_pool.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/operations.hpp"
#include "proto/rma/rma_initiator.hpp"

namespace gaudi::proto {

/// RMA operations on several ranges of a peer's memory (fi_msg_rma::rma_iov): one on each, of which
/// the application hears as of one. What there is no room for is kept, and posted later; remote CQ
/// data goes with the last range, once the others have arrived.
///
/// Not thread safe: the caller holds the domain lock.
class rma_ranges {
 public:
  /// That an operation may have.
  static constexpr std::size_t max_ranges = 16;
  /// Operations that are not all posted yet: what an application posts beyond these it has to post
  /// again.
  static constexpr std::size_t max_unposted = 64;

  enum class direction : std::uint8_t { write, read };

  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    rma_initiator& initiator;
  };

  /// `order`: endpoint_settings::rma_order: what is posted later must not overtake.
  rma_ranges(parts collaborators, bool order) noexcept
      : parts_(collaborators), is_ordered_(order) {}
  rma_ranges(const rma_ranges&) = delete;
  rma_ranges& operator=(const rma_ranges&) = delete;

  /// Begins with what there is room for; `c` is the target's connection. The ranges (1 to
  /// max_ranges) are together as long as `memory`, which is not empty. 0: the end is told by the
  /// completion of `access`, whose address and key do not matter. -FI_EAGAIN, or an error: nothing
  /// has begun.
  int start(direction way, connection& c, const local_memory& memory, const rma_access& access,
            std::span<const fi_rma_iov> ranges);

  /// Whether operations are not all posted yet; peer::unposted counts those to a peer.
  [[nodiscard]] bool any_unposted() const noexcept { return unposted_.size() != 0; }
  /// Whether some of them may go on, or have to fail, and no event of the core's will tell of that.
  [[nodiscard]] bool waits_unnoticed() const noexcept;
  /// Posts what there is room for now.
  void progress();
  /// Ends, once what is under way has ended, all that are not all posted, with the positive FI_E*.
  void fail_unposted(int error) noexcept;

 private:
  /// One of them. It is each part's hook.
  struct operation final : completion_hook, boost::intrusive::list_base_hook<> {
    explicit operation(rma_ranges& of) noexcept : owner(of) {}
    virtual ~operation() = default;
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;

    bool operation_ended(cq_entry& entry) noexcept override;
    /// The next part has to wait for the others to end.
    [[nodiscard]] bool is_held() const noexcept {
      return access.has_data && next + 1 == count && under_way != 0;
    }
    [[nodiscard]] bool is_posted() const noexcept { return next == count || failure.error != 0; }

    rma_ranges& owner;
    peer* target = nullptr;  // whose address the application may have removed meanwhile
    // Of all parts: on another one there may be another process at the target's address.
    std::uint32_t connection = 0;
    direction way = direction::write;
    rma_access access;
    local_memory memory;
    buffer* injected = nullptr;  // `memory` is in it
    std::array<fi_rma_iov, max_ranges> ranges;
    std::size_t count = 0;
    std::size_t next = 0;    // to be posted
    std::size_t offset = 0;  // of its bytes
    std::size_t under_way = 0;
    bool is_being_posted = false;  // whoever does that settles it
    cq_entry failure;  // with an error: of the first part that failed; what is left is not posted
  };
  friend struct endpoint_audit;  // tests/sim
  using operations = boost::intrusive::list<operation>;

  static void fill(operation& o, direction way, const connection& c, const local_memory& memory,
                   const rma_access& access, std::span<const fi_rma_iov> ranges) noexcept;
  int post_some(operation& o);
  int post_next(operation& o);
  int post_on_connection(const operation& o, const local_memory& memory,
                         const rma_access& access) noexcept;
  void settle(operation& o) noexcept;
  void finish(operation& o) noexcept;

  void list(operation& o) noexcept;
  void unlist(operation& o) noexcept;
  [[nodiscard]] bool others_come_first(const operation& o, const connection& c) const noexcept;
  [[nodiscard]] static connection* connection_of(const operation& o) noexcept;

  const parts parts_;
  const bool is_ordered_;
  base::object_pool<operation> pool_;
  operations unposted_;
};

}  // namespace gaudi::proto
