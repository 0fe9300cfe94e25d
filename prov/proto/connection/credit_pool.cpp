// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/credit_pool.hpp"

#include <algorithm>
#include <utility>

namespace gaudi::proto {

std::uint16_t credit_pool::window_over_stream(std::size_t others) noexcept {
  return static_cast<std::uint16_t>(std::clamp<std::size_t>(others, certain, most));
}

// What it may come to have without a further decision here.
std::uint32_t credit_pool::promised(const connection& c) noexcept {
  return std::max<std::uint32_t>(c.data.granted(), c.share.target);
}

bool credit_pool::is_asleep(const connection& c) const noexcept {
  return messages_ - c.share.used_at >= asleep_after;
}

std::uint16_t credit_pool::open(connection& c) noexcept {
  if (!limited_) return window_;
  const auto more = static_cast<std::uint16_t>(std::min<std::size_t>(others_ / 2, most - certain));
  others_ -= more;
  c.share = {.target = static_cast<std::uint16_t>(certain + more), .used_at = messages_};
  return c.share.target;
}

void credit_pool::close(const connection& c) noexcept {
  if (wanted_by_ == &c) wanted_by_ = nullptr;
  if (limited_ && c.share.target != 0) others_ += promised(c) - certain;
}

void credit_pool::consumed_of_limited(connection& c) noexcept {
  const auto before = promised(c);
  c.data.consumed(c.share.target);
  others_ += before - promised(c);
  ++messages_;
  c.share.used_at = messages_;
  if (c.data.granted() != c.share.target || ++c.share.used < c.share.target) return;
  c.share.used = 0;
  grow(c);
}

// It has used its window up: what it has is doubled.
void credit_pool::grow(connection& c) noexcept {
  const std::size_t wanted = std::min<std::size_t>(c.share.target, most - c.share.target);
  if (wanted == 0) return;
  const std::size_t more = std::min(wanted, others_);
  others_ -= more;
  c.share.target = static_cast<std::uint16_t>(c.share.target + more);
  if (more == wanted || messages_ < next_look_) return;
  next_look_ = messages_ + between_looks;
  wanted_by_ = &c;
}

void credit_pool::lower(connection& c, std::uint16_t target) noexcept {
  const auto before = promised(c);
  c.share.target = target;
  others_ += before - promised(c);
}

void credit_pool::released(connection& c, std::uint32_t count) noexcept {
  const auto before = promised(c);
  c.data.released(count);
  others_ += before - promised(c);
}

}  // namespace gaudi::proto
