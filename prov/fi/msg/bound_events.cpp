// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/msg/bound_events.hpp"

#include "fi/common/eq.hpp"
#include "fi/msg/core_events.hpp"

namespace gaudi::fi {

int bind_events(fid& core, fid_fabric* core_fabric, fid_t events, std::uint64_t flags,
                child_count::ref& hold) {
  event_queue& ours = event_queue::of(events);
  const auto behind = ours.attach(core_fabric, core_events::open);
  if (!behind) return behind.code();
  const int ret = core.ops->bind(&core, &(*behind)->fid, flags);
  if (ret == 0) hold = child_count::ref(ours.bound());
  return ret;
}

}  // namespace gaudi::fi
