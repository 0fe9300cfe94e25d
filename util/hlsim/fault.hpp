// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace hlsim {

/// What can be made to go wrong, see hlsim(7), FAULTS.
enum class fault {
  busy,
  in_reset,
  malfunction,
  removal,
  cs_timeout,
  enomem,
  emfile,
  no_dmabuf,
  reset,
  reset_after_ms,
  hang,
  export_hang,
  pause,
};

/// The faults of this process: HLSIM_FAULT, and the file "fault" in the device folder, which may
/// change while the process runs. Thread-safe.
class fault_set {
 public:
  /// Reads the file again if it has changed. One system call when it has not, none when the last
  /// look at it was less than `max_age_ns` ago.
  void refresh(uint64_t max_age_ns = 0);

  /// True when `which` strikes device `index` now. A fault with a count ("emfile=3") strikes only
  /// at the count-th question.
  bool strikes(fault which, uint32_t index);

  /// The number that `which` has for device `index` ("reset-after-ms=20"); 0: it has none, or there
  /// is no such fault.
  uint64_t number(fault which, uint32_t index);

  /// True when there are no faults at all. No lock.
  [[nodiscard]] bool empty() const noexcept { return empty_; }

  static fault_set& instance();

  /// Around fork, so that the child does not inherit a locked mutex.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct entry {
    uint64_t at = 0;  ///< 0 = always
    uint64_t asked = 0;
  };
  /// Device index, or any_device, and the fault.
  using table = std::map<std::pair<uint32_t, fault>, entry>;

  fault_set();
  static bool strikes(table& faults, fault which, uint32_t index);
  static table parse(const std::string& text);

  std::mutex mutex_;
  table from_environment_;
  table from_file_;
  const std::string path_;
  int64_t file_stamp_ = 0;
  std::atomic<uint64_t> looked_ns_{0};
  std::atomic<bool> empty_;
};

}  // namespace hlsim
