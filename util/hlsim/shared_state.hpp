// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "model.hpp"

namespace hlsim {

// What the driver would know of a device and its one compute context. It lives in the file behind
// the device fd, mapped by every process that holds the fd, so all of them see the same context.
// All members except the identity are guarded by the mutex.

inline constexpr uint32_t max_pages = 131072;
inline constexpr uint32_t max_allocations = 4096;
inline constexpr uint32_t max_mappings = 65536;
inline constexpr uint32_t max_exports = 4096;
inline constexpr uint32_t max_cbs = 1024;
inline constexpr uint32_t cs_slots = 16384;
inline constexpr uint32_t no_page = UINT32_MAX;

/// One device memory allocation: a chain of HBM pages through device_state::next_page.
struct allocation {
  uint64_t handle;  ///< 0 = free slot
  uint32_t first_page, last_page;
  uint32_t pages;  ///< of device_state::page_size, like those two
  uint32_t maps;
  uint64_t alignment;  ///< bytes: the page that the user chose
};

enum class mapping_kind : uint32_t { hbm, host };

/// One device VA range. Host ranges name the process whose memory it is.
struct mapping {
  uint64_t va;      ///< page-aligned
  uint64_t size;    ///< bytes, whole pages
  uint64_t key;     ///< what the caller was given and must pass to unmap: va + in-page offset
  uint64_t target;  ///< hbm: handle; host: address of the first page
  mapping_kind kind;
  int32_t pid;
};

/// One export; alive for as long as the file's flock is held, see exports.hpp.
struct export_record {
  uint64_t key;         ///< mapping::key; 0 = free slot
  uint64_t number;      ///< of the lock file, or the inode of a udmabuf
  uint64_t filesystem;  ///< of the udmabuf's inode (st_dev); 0: a lock file
};

/// One command buffer of the driver's: in the file behind the fd, from offset `handle` on.
struct kernel_cb {
  uint64_t handle;  ///< 0 = free slot
  uint64_t size;    ///< bytes, as asked for
};

enum class cs_progress : uint32_t { empty, running, completed, timed_out, aborted };

struct cs_slot {
  uint64_t seq;  ///< this and `progress` are also read without the mutex
  cs_progress progress;
  int32_t pid;  ///< whose worker runs it
};

struct device_state {
  uint64_t magic;
  uint32_t index;
  kind model_kind;
  uint32_t is_control;  ///< only the identity is valid in a control node's file
  char name[192];       ///< path of the compute node's file
  char hbm_path[256];

  pthread_mutex_t mutex;
  uint32_t cs_changes;  ///< counts what tell_cs_changed() told; also read without the mutex
  uint64_t generation;  ///< counts contexts; also read without the mutex
  uint64_t open_count;
  uint64_t opened_ns, closed_ns;  ///< CLOCK_MONOTONIC
  uint32_t context_active;
  uint32_t hard_resets;
  uint32_t in_reset;      ///< the context is lost; also read without the mutex
  uint32_t recovering;    ///< a reset takes its time, or waits for the context's last user to go
  uint64_t events;        ///< HL_NOTIFIER_EVENT_* that nobody has received yet
  uint64_t event_count;   ///< of all events of the context; also read without the mutex
  uint64_t page_size;     ///< bytes: what HBM is divided into here
  uint64_t default_page;  ///< bytes: of an allocation that does not choose
  uint32_t pages;
  uint64_t last_handle, last_export, next_seq;
  uint64_t user_bytes;  ///< physical HBM: what the user says it has allocated
  uint64_t cb_end;      ///< end of the file: kernel command buffers lie behind this structure
  allocation allocations[max_allocations];
  uint32_t page_owner[max_pages];  ///< slot in allocations, or no_page
  uint32_t next_page[max_pages];
  uint32_t mapping_count;
  mapping mappings[max_mappings];  ///< ordered by va
  export_record exports[max_exports];
  kernel_cb cbs[max_cbs];
  cs_slot cs[cs_slots];
};
static_assert(std::is_trivially_copyable_v<mapping> && std::is_standard_layout_v<device_state>);

/// Changes with the layout, so that files of another build are not taken for ours.
inline constexpr uint64_t state_magic = 0x316d6973'6c680000 ^ sizeof(device_state);

/// The bytes a device file keeps for its device_state: whole pages.
inline constexpr uint64_t state_bytes = (sizeof(device_state) + 4095) & ~uint64_t{4095};

/// Holds the mutex of a device_state. It is robust: a process that dies while holding it does not
/// hang the others.
class state_lock {
 public:
  explicit state_lock(device_state& state) noexcept;
  ~state_lock();
  state_lock(const state_lock&) = delete;
  state_lock& operator=(const state_lock&) = delete;

  /// Waits for tell_cs_changed() until `deadline_ns` (CLOCK_MONOTONIC); false when it passed.
  bool wait_until(uint64_t deadline_ns) noexcept;

 private:
  void lock() noexcept;
  void unlock() noexcept;

  device_state& state_;
};

/// Makes the mutex of a new file. Nobody else may have it mapped.
void initialise_sync(device_state& state) noexcept;

/// Wakes who waits in any process for a submission to end, with or without the state_lock. By a
/// counter and a futex: a condition variable of the C library's hangs those who signal it once a
/// process was killed that waited for it.
void tell_cs_changed(device_state& state) noexcept;

/// Begins a new context: no allocations, mappings or submissions. The caller holds the state_lock.
void reset_context(device_state& state) noexcept;

/// Tells of events (HL_NOTIFIER_EVENT_*). The caller holds the state_lock.
void raise_events(device_state& state, uint64_t events) noexcept;

/// A hard reset begins, because of `events`: the context is lost for good. Once only for each
/// context. Submissions in flight are ended by the engines that carry them out. The caller holds
/// the state_lock.
void begin_reset(device_state& state, uint64_t events) noexcept;

/// Whether a reset has begun since the context did. No lock.
bool is_in_reset(device_state& state) noexcept;

/// CLOCK_MONOTONIC in nanoseconds.
uint64_t now_ns() noexcept;

}  // namespace hlsim
