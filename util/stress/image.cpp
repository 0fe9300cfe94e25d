// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/pattern.hpp"

namespace gaudi::stress {
namespace {

using common::pattern;
using words = std::vector<std::uint64_t>;

constexpr std::size_t untouched_end = 64;
constexpr std::size_t word_size = sizeof(std::uint64_t);

// Patterns of one size differ by the run and round, and by what they are for: the operation's
// number, or the memory's owner and kind behind all of those.
constexpr unsigned first_background = 1U << 30U;

std::uint64_t run_and_round(const round_plan& plan) {
  return plan.seed * 0x9e3779b97f4a7c15 + plan.round;
}

pattern background(const round_plan& plan, unsigned worker, memory_kind kind) {
  const auto memory = static_cast<unsigned>(kinds.size()) * worker;
  return {0, run_and_round(plan),
          first_background + memory + static_cast<unsigned>(index_of(kind))};
}

pattern payload(const round_plan& plan, std::size_t number) {
  return {plan.operations[number].size, run_and_round(plan), static_cast<unsigned>(number)};
}

words words_of(const pattern& bytes, std::size_t offset, std::size_t size) {
  words out(size / word_size);
  bytes.fill(std::as_writable_bytes(std::span(out)), offset);
  return out;
}

/// What the target of an operation's atomic holds before all of them.
words initial(const round_plan& plan, const planned& p) {
  return words_of(background(plan, p.target, p.far.memory), p.far.offset, p.size);
}

// Half of the elements are to be swapped.
bool is_swapped(std::size_t number, std::size_t element) {
  return (number + element) % 2 == 0;
}

words compared(const round_plan& plan, std::size_t number) {
  words out = initial(plan, plan.operations[number]);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!is_swapped(number, i)) out[i] = ~out[i];
  return out;
}

/// What the operation makes of its target.
void apply(const round_plan& plan, std::size_t number, words& target) {
  const words operand = words_of(payload(plan, number), 0, plan.operations[number].size);
  const bool swap = plan.operations[number].op == operation::compare;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (!swap)
      target[i] += operand[i];
    else if (is_swapped(number, i))
      target[i] = operand[i];
  }
}

/// The end of what a round uses of a worker's memory, and untouched bytes behind it.
std::size_t extent(const round_plan& plan, unsigned worker, memory_kind kind) {
  const place sums = shared_sums(kind);
  std::size_t end = sums.offset + sums.size;
  const auto include = [&](unsigned owner, const place& at) {
    if (owner == worker && at.memory == kind) end = std::max(end, at.offset + at.size);
  };
  for (const planned& p : plan.operations) {
    include(p.initiator, p.near);
    include(p.initiator, p.result);
    include(p.initiator, p.compared);
    include(p.target, p.far);
    include(p.target, p.spare);
  }
  return end + untouched_end;
}

bool covers(const place& at, std::size_t offset) {
  return offset >= at.offset && offset - at.offset < at.size;
}

}  // namespace

image::image(const round_plan& plan, unsigned worker, memory_kind kind)
    : plan_(plan), worker_(worker), kind_(kind), before_(extent(plan, worker, kind)) {
  background(plan, worker, kind).fill(before_, 0);
  for (std::size_t number = 0; number < plan.operations.size(); ++number) {
    const planned& p = plan.operations[number];
    const bool reads = p.op == operation::read;
    const place& source = reads ? p.far : p.near;
    if ((reads ? p.target : p.initiator) == worker && source.memory == kind)
      put_payload(number, source.offset, before_);
    if (p.op == operation::compare && p.initiator == worker && p.compared.memory == kind)
      std::memcpy(before_.data() + p.compared.offset, compared(plan, number).data(), p.size);
  }
  after_ = before_;
}

void image::put_payload(std::size_t number, std::size_t offset,
                        std::vector<std::byte>& bytes) const {
  const std::size_t size = plan_.operations[number].size;
  payload(plan_, number).fill(std::span(bytes).subspan(offset, size), 0);
}

void image::put(const place& at, const std::vector<std::uint64_t>& values) {
  if (at.memory == kind_) std::memcpy(after_.data() + at.offset, values.data(), at.size);
}

void image::expect_near(std::size_t number) {
  const planned& p = plan_.operations[number];
  if (p.op == operation::read && p.near.memory == kind_) put_payload(number, p.near.offset, after_);
  if (p.op == operation::fetch || p.op == operation::compare) put(p.result, initial(plan_, p));
}

void image::expect_far(std::size_t number, const place& at) {
  const planned& p = plan_.operations[number];
  if (at.memory != kind_ || p.op == operation::read) return;
  if (!is_atomic(p.op)) return put_payload(number, at.offset, after_);
  words target(p.size / word_size);
  std::memcpy(target.data(), after_.data() + at.offset, p.size);
  apply(plan_, number, target);
  put(at, target);
}

void image::ignore(const place& at) {
  if (at.memory == kind_) ignored_.push_back(at);
}

void image::corrupt(std::size_t number) {
  const place& at = plan_.operations[number].near;
  if (at.memory != kind_) return;
  before_[at.offset] ^= std::byte{1};
  after_[at.offset] ^= std::byte{1};
}

std::optional<std::string> image::find_difference(std::span<std::byte> actual) const {
  for (const place& at : ignored_)
    std::copy_n(after_.begin() + static_cast<std::ptrdiff_t>(at.offset), at.size,
                actual.begin() + static_cast<std::ptrdiff_t>(at.offset));
  const auto wrong = std::mismatch(after_.begin(), after_.end(), actual.begin()).first;
  if (wrong == after_.end()) return std::nullopt;
  return describe(static_cast<std::size_t>(wrong - after_.begin()));
}

std::string image::describe(std::size_t offset) const {
  const char* kind = kind_ == memory_kind::host ? "host" : "device";
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const planned& p = plan_.operations[number];
    for (const auto& [owner, at] :
         {std::pair{p.initiator, p.near}, std::pair{p.initiator, p.result},
          std::pair{p.initiator, p.compared}, std::pair{p.target, p.far},
          std::pair{p.target, p.spare}})
      if (owner == worker_ && at.memory == kind_ && covers(at, offset))
        return p.mode == receive_mode::multi && owner == p.target
                   ? fmt::format(
                         "WRONG DATA: byte {} in {} memory differs, in the buffers for "
                         "messages from worker {} (round {})",
                         offset - at.offset, kind, p.initiator, plan_.round)
                   : fmt::format("WRONG DATA: byte {} in {} memory differs, {}", offset - at.offset,
                                 kind, stress::describe(plan_, number));
  }
  return fmt::format(
      "WRONG DATA: {} memory that no operation was to touch has changed, at offset {} (round {})",
      kind, offset, plan_.round);
}

std::string describe(const round_plan& plan, std::size_t number) {
  const planned& p = plan.operations[number];
  return fmt::format("{} of {} bytes from worker {} to worker {} (round {}, operation {})",
                     name_of(p.op), p.size, p.initiator, p.target, plan.round, number);
}

}  // namespace gaudi::stress
