// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "buffer_run.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace hlsim {
namespace {

/// Bytes whose time is booked and copied at once, so that a stop is noticed.
constexpr uint64_t slice_bytes = 16 << 20;

/// An engine has several packets on their way where none waits for those before it: then the last
/// of them is here the first to be done.
void overlap(std::vector<packet>& packets) {
  const auto waits = [](const packet& p) { return p.waits; };
  for (auto first = packets.begin(); first != packets.end();) {
    const auto end = std::find_if(first + 1, packets.end(), waits);
    std::reverse(first, end);
    first = end;
  }
}

}  // namespace

buffer_run::buffer_run(run_tools& tools, const command_buffer& buffer, uint64_t ready_ns)
    : tools_(tools),
      ready_ns_(ready_ns),
      readable_(buffer.copied.empty() ? read_packets(buffer.va, buffer.size, false)
                                      : decode_packets(buffer.copied, false)),
      wake_ns_(ready_ns) {
  if (current_settings().order == reorder::always) overlap(packets_);
}

bool buffer_run::read_packets(uint64_t va, uint64_t size, bool nested) {
  std::vector<char> bytes(size);
  return tools_.memory.fetch(va, bytes.data(), size) && decode_packets(bytes, nested);
}

bool buffer_run::decode_packets(std::span<const char> rest, bool nested) {
  while (!rest.empty()) {
    const std::optional<packet> p = decode(rest, tools_.device.generation);
    if (!p) return false;
    rest = rest.subspan(p->bytes);
    if (p->op == opcode::lin_dma && p->size > 0) packets_.push_back(*p);
    if (p->op != opcode::cp_dma) continue;
    if (nested || !read_packets(p->source, p->size, true)) return false;
  }
  return true;
}

buffer_run::state buffer_run::advance() {
  if (now_ns() < ready_ns_) return state::waiting;
  while (next_ < packets_.size()) {
    if (const state s = transfer(packets_[next_]); s != state::done) return s;
    done_ = 0;
    ++next_;
  }
  return readable_ ? state::done : state::failed;
}

/// Copies as late as it can, so that nothing of the data is seen before its time.
buffer_run::state buffer_run::transfer(const packet& p) {
  const direction link =
      p.memset ? direction::d2d : tools_.memory.direction_of(p.source, p.destination);
  auto& cost = tools_.copy_ns_per_byte[static_cast<size_t>(link)];
  while (done_ < p.size) {
    if (slice_ == 0) {
      slice_ = std::min<uint64_t>(p.size - done_, slice_bytes);
      due_ns_ = tools_.links.book(link, slice_, ready_ns_);
      copied_ = false;
    }
    const uint64_t begin = now_ns();
    if (!copied_) {
      const auto takes = static_cast<uint64_t>(cost * static_cast<double>(slice_));
      wake_ns_ = due_ns_ - std::min(due_ns_, takes);
      if (begin < wake_ns_) return state::waiting;
      if (!copy(p, slice_)) return state::failed;
      copied_ = true;
      const double taken = static_cast<double>(now_ns() - begin) / static_cast<double>(slice_);
      cost = cost * 0.75 + std::min(taken, 2.0) * 0.25;
    }
    wake_ns_ = due_ns_;
    if (now_ns() < due_ns_) return state::waiting;
    done_ += slice_;
    slice_ = 0;
  }
  return state::done;
}

bool buffer_run::copy(const packet& p, uint64_t size) {
  const uint64_t destination = p.destination + done_;
  if (current_settings().dry)
    return tools_.memory.is_mapped(destination) &&
           (p.memset || tools_.memory.is_mapped(p.source + done_));
  return p.memset ? tools_.memory.fill(destination, size, static_cast<uint32_t>(p.source))
                  : tools_.memory.copy(p.source + done_, destination, size);
}

}  // namespace hlsim
