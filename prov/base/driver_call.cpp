// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/driver_call.hpp"

#include <chrono>
#include <new>

namespace gaudi::base::outstanding {

driver_call::driver_call(call_kind kind, std::int32_t device, std::uint64_t bytes,
                         std::string_view nic) noexcept {
  try {
    record_ = record_owner(record_kind::call);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (!record_) return;
  record r{};
  r.type = static_cast<std::uint8_t>(kind);
  r.device = device;
  r.total = bytes;
  r.since = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                       std::chrono::nanoseconds(1));
  nic.copy(reinterpret_cast<char*>(r.address.data()), r.address.size() - 1);
  record_.write(r);
}

}  // namespace gaudi::base::outstanding
