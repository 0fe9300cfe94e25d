// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/completion_spec.hpp"

namespace gaudi::proto {

void completion_spec::end_counted(cq_entry entry) const noexcept {
  if (counter) counter->count(entry.error);
  if (mr_counter) mr_counter->count(entry.error);
  const bool releases = hook && hook->operation_ended(entry);
  if (queue && (is_told(entry) || (releases && !entry.error))) queue->push(entry, context, flags);
}

}  // namespace gaudi::proto
