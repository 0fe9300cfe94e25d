// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "hl/thunk.hpp"

namespace gaudi::device {

/// One mapping of device memory, exported as a dma-buf at most once: the driver allocation that
/// ours are cut from, or a range of the application's. Not thread safe. Movable.
class mapping {
 public:
  /// Allocates at least `len` bytes (the driver rounds up to `page_size`) and maps them; owned:
  /// undone at the end. -FI_ENOMEM: HBM is full; -FI_EBUSY: device in reset.
  static base::result<mapping> allocate(std::shared_ptr<const hl::thunk> thunk, int fd,
                                        std::uint64_t len, std::uint64_t page_size);
  /// One that is not to be undone here: a mapping of the application's, or (`physical`) a part of a
  /// Gaudi1's HBM, where nothing is mapped.
  static mapping attach_synapse(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t base,
                                std::uint64_t len, bool physical);

  /// Likewise a part of the application's mapping that begins at `va`: what is exported is that
  /// part.
  static mapping borrow_part(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t va,
                             std::uint64_t base, std::uint64_t len);

  mapping(mapping&& other) noexcept;
  mapping& operator=(mapping&&) = delete;
  /// Releases whatever is left, in the driver's order: dma-buf, mapping, allocation.
  ~mapping();

  [[nodiscard]] std::uint64_t base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t len() const noexcept { return len_; }
  /// The driver has made its dma-buf.
  [[nodiscard]] bool exported() const noexcept { return static_cast<bool>(dmabuf_); }

  /// A descriptor of the whole mapping's dma-buf: a duplicate of the one made by the first call.
  /// -FI_EOPNOTSUPP: the driver cannot export; -FI_EMFILE and the like.
  base::result<base::scoped_fd> export_dmabuf();
  /// Gives the descriptor back that the first call made; the next one exports anew. False: none.
  bool close_dmabuf() noexcept;
  /// Unmaps and frees. Fails with the mapping intact (-FI_EINVAL) while someone else holds the
  /// dma-buf.
  base::result<void> release();
  /// The device is lost, and with it what was allocated: only the dma-buf is still to be given
  /// back.
  void abandon() noexcept;

 private:
  mapping(std::shared_ptr<const hl::thunk> thunk, int fd, std::uint64_t handle, std::uint64_t va,
          std::uint64_t base, std::uint64_t len, bool physical);

  std::shared_ptr<const hl::thunk> thunk_;
  int fd_;
  std::uint64_t handle_;  // 0: nothing to undo
  std::uint64_t va_;      // that the driver gave; base_, but in a part of a mapping
  std::uint64_t base_;
  std::uint64_t len_;
  bool physical_;
  base::scoped_fd dmabuf_;
};

}  // namespace gaudi::device
