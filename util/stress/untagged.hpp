// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "image.hpp"

namespace gaudi::stress {

/// What a receive of an untagged message has got.
struct arrival {
  std::size_t length = 0;
  std::uint64_t data = 0;
};

/// Of messages of one sender that is lost, those that have come: any may be missing, because one
/// whose bytes the sender still had is dropped while later ones stay, but the others have to be in
/// the order of sending. `messages` are their numbers. The first that none of them can be.
std::optional<std::size_t> find_unsent(const round_plan& plan,
                                       const std::vector<std::size_t>& messages,
                                       const std::vector<arrival>& come);

/// A failure for one that was not sent then.
void require_sent(const round_plan& plan, const std::vector<std::size_t>& messages,
                  const std::vector<arrival>& come, unsigned sender);

}  // namespace gaudi::stress
