// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string_view>

#include "base/outstanding_page.hpp"

namespace gaudi::base::outstanding {

/// While it lives, others see in the page that a thread of this process is inside a call that a
/// driver answers, and may not come back from. Without a record where the page has none left, or
/// there is no memory for it. Any thread, with any locks held.
class driver_call {
 public:
  /// `device`: whose memory it is about, or -1; `bytes` of memory; `nic`: of which the first 27
  /// characters are shown.
  explicit driver_call(call_kind kind, std::int32_t device, std::uint64_t bytes,
                       std::string_view nic = {}) noexcept;
  driver_call(const driver_call&) = delete;
  driver_call& operator=(const driver_call&) = delete;
  ~driver_call() = default;

 private:
  record_owner record_;
};

}  // namespace gaudi::base::outstanding
