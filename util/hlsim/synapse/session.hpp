// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "commands.hpp"
#include "host_maps.hpp"
#include "scal.hpp"
#include "synapse.hpp"

/// Copies in order. `last` is the number of its last submission, 0 while there is none.
struct synStream {
  uint32_t channel = 0;
  uint64_t last = 0;
};

/// What a stream had been given when it was recorded there.
struct synEvent {
  uint64_t last = 0;
};

namespace synsim {

/// The device that this process has acquired, of which there is one at most. The caller holds
/// runtime::mutex but where a function says otherwise.
class session {
 public:
  /// `fd` becomes this object's. Null: the device cannot be used, and `why` says it.
  static std::unique_ptr<session> begin(int fd, synStatus& why);
  /// Ends all that is left, when nothing is in flight any more.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] scal_memory_pool_infoV2 pool_info() const;

  uint64_t take(uint64_t size, uint64_t wanted) { return hlsim_scal_take(pool_, size, wanted); }
  bool give(uint64_t address) { return hlsim_scal_give(pool_, address); }
  host_maps& host() noexcept { return *host_; }

  synStream* add_stream();
  synEvent* add_event();
  bool remove(const synStream* stream);
  bool remove(const synEvent* event);
  [[nodiscard]] bool knows(const synStream* stream) const;
  [[nodiscard]] bool knows(const synEvent* event) const;
  /// What has to end for everything to have ended: one submission a stream.
  [[nodiscard]] std::vector<uint64_t> pending() const;

  struct copy {
    uint64_t source, size, destination;
  };
  /// Starts copies, one after the other; host addresses are the process's.
  synStatus start(synStream& on, std::span<const copy> copies, synDmaDir direction);
  synStatus fill(synStream& on, uint64_t address, unsigned char value, uint64_t size);

 private:
  session(int fd, scal_handle_t scal, scal_pool_handle_t pool);
  synStatus submit(synStream& on, std::span<const lin_dma> packets);

  int fd_;
  scal_handle_t scal_;
  scal_pool_handle_t pool_;
  std::unique_ptr<host_maps> host_;
  std::vector<std::unique_ptr<synStream>> streams_;
  std::vector<std::unique_ptr<synEvent>> events_;
  uint32_t next_channel_ = 0;
};

/// The process's Synapse.
struct runtime {
  std::mutex mutex;
  bool initialised = false;
  std::unique_ptr<session> device;

  static runtime& instance();
};

/// Runs `work(session&)` under the lock: synUninitialized, `without` where no device is acquired,
/// or what `work` says.
template <class Work>
synStatus with_device(synStatus without, Work work) {
  runtime& r = runtime::instance();
  const std::lock_guard lock(r.mutex);
  if (!r.initialised) return synUninitialized;
  return r.device ? work(*r.device) : without;
}

/// Waits for submissions without the lock. synDeviceReset: the device has failed.
synStatus wait_for(int fd, std::span<const uint64_t> submissions);
/// The same for now: synBusy.
synStatus look_at(int fd, uint64_t submission);

}  // namespace synsim
