// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/grant_queue.hpp"

#include <algorithm>

namespace gaudi::proto {

void grant_queue::add(transfer& t, const connection& c, const shared_slots* from) {
  const auto found = std::find_if(lines_.begin(), lines_.end(),
                                  [&](const line& l) { return l.of == &c && l.from == from; });
  if (found != lines_.end()) return found->waiting.push_back(&t);
  lines_.push_back({&c, from, {&t}});
}

void grant_queue::remove(const transfer& t) noexcept {
  for (auto l = lines_.begin(); l != lines_.end(); ++l) {
    const auto found = std::find(l->waiting.begin(), l->waiting.end(), &t);
    if (found == l->waiting.end()) continue;
    l->waiting.erase(found);
    if (l->waiting.empty()) lines_.erase(l);
    return;
  }
}

std::size_t grant_queue::size() const noexcept {
  std::size_t all = 0;
  for (const line& l : lines_) all += l.waiting.size();
  return all;
}

}  // namespace gaudi::proto
