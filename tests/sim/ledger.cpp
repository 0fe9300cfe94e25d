// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is checked as completions come.
#include "sim/ledger.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

namespace gaudi::sim {
namespace {

constexpr std::byte after_use{0xdd};
constexpr std::byte of_nobody{0xa5};

std::byte byte_of(std::uint64_t number, std::size_t i) noexcept {
  if (i < 8) return static_cast<std::byte>(number >> (8 * i));
  return static_cast<std::byte>((number * 0x9e3779b97f4a7c15 >> 40) + i * 7 + (i >> 8));
}

std::uint64_t sum_of(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = 14695981039346656037u;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    sum = (sum ^ word) * 1099511628211u;
  }
  for (; i < bytes.size(); ++i) sum = (sum ^ static_cast<std::uint64_t>(bytes[i])) * 1099511628211u;
  return sum;
}

}  // namespace

void fill(std::span<std::byte> bytes, std::uint64_t number) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(number, i);
}

bool is_filled(std::span<const std::byte> bytes, std::uint64_t number, std::size_t first) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_of(number, first + i)) return false;
  return true;
}

void record::take(std::span<std::byte> whole) noexcept {
  memory = whole.first(whole.size() - guard_bytes);
  guard = whole.last(guard_bytes);
  std::fill(guard.begin(), guard.end(), of_nobody);
}

bool wants(const record& receive, const record& sent) noexcept {
  const action& a = receive.asked;
  const action& m = sent.asked;
  if (m.peer != receive.node || a.tagged != m.tagged) return false;
  if (!a.any_peer && a.peer != sent.node) return false;
  return !a.tagged || ((a.tag ^ m.tag) & ~a.ignore) == 0;
}

std::string ledger::name(const record& r) {
  return std::string(1, static_cast<char>('A' + r.node)) + "'s #" + std::to_string(r.number) +
         " (" + to_string(r.asked) + ")";
}

record& ledger::add(const action& a, unsigned node, unsigned life) {
  record& r = all_.emplace_back();
  r.number = all_.size();
  r.asked = a;
  r.node = node;
  r.life = life;
  return r;
}

bool ledger::lost_at(unsigned node) const {
  for (unsigned n = 0; n < plan_.nodes; ++n)
    if (net_.was_disturbed(node, n)) return true;
  return false;
}

// What others sent to it may have been for that memory.
void ledger::lost_device(unsigned node) {
  lost_devices_[node] = true;
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    net_.lose(n, node);
    if (!plan_.net.sessions || !plan_.is_reached(node)) continue;
    // A session that has to send such memory again ends.
    net_.disturb(node, n);
    net_.lose(node, n);
  }
}

// It is in a device that has been reset, here or at the other end.
bool ledger::may_have_lost_memory(const record& r) const {
  const bool is_any = r.asked.any_peer && std::find(lost_devices_.begin(), lost_devices_.end(),
                                                    true) != lost_devices_.end();
  return (lost_devices_[r.node] && r.device_bytes) || lost_devices_[r.asked.peer] || is_any;
}

bool ledger::may_be_anything(const record& r) const {
  return lost_devices_[r.node] && r.device_bytes &&
         (plan_.is_reached(r.node) || plan_.passes_dmabufs);
}

bool ledger::any_unreadable() const {
  return plan_.nic_reaches_devices &&
         std::find(lost_devices_.begin(), lost_devices_.end(), true) != lost_devices_.end();
}

// Whether a fault can have been the reason. A receive may have been for a message of anybody.
bool ledger::may_fail(const record& r) const {
  if (may_have_lost_memory(r)) return true;
  if (r.is_receive() || r.asked.what == action::kind::peek) return lost_at(r.node);
  return net_.was_disturbed(r.node, r.asked.peer);
}

void ledger::refused(record& r, int error) {
  r.now = record::state::refused;
  r.error = error;
  r.ended = ++clock_;
  if (!may_fail(r)) fail(name(r) + " was refused: " + fi_strerror(error));
}

void ledger::cancelled(record& r) {
  r.is_cancelled = true;
}

void ledger::forget(unsigned node) {
  for (record& r : all_) {
    if (r.node != node || (r.now != record::state::started && r.now != record::state::waiting))
      continue;
    r.now = record::state::forgotten;
    r.ended = ++clock_;
  }
}

void ledger::completed(unsigned node, unsigned life, const proto::cq_entry& entry,
                       std::span<const std::byte> region) {
  if (!entry.context) return completed_event(node, life, entry, region);
  auto& r = *static_cast<record*>(entry.context);
  if (r.node != node || r.life != life)
    return fail(name(r) + " was told to another endpoint than its own");
  if (!r.is_open()) return fail(name(r) + " has ended twice");
  if (r.is_receive()) return completed_receive(r, entry);
  if (r.asked.what == action::kind::peek) return completed_peek(r, entry);
  end(r, entry);
}

void ledger::end(record& r, const proto::cq_entry& entry) {
  r.now = record::state::ended;
  r.error = entry.error;
  r.ended = ++clock_;
  if (r.error != 0) {
    if (!may_fail(r)) fail(name(r) + " failed without a reason: " + fi_strerror(r.error));
  } else {
    check_result(r);
  }
  // It is the application's again, which uses it for something else.
  if (!r.is_receive()) std::fill(r.memory.begin(), r.memory.end(), after_use);
}

// Of what a forger has anything may come, and it may have written to all regions.
bool ledger::is_of_forger(const record& r, const proto::cq_entry& entry) const {
  return plan_.forger && (r.node == *plan_.forger || entry.source == *plan_.forger);
}

void ledger::check_result(const record& r) {
  if (plan_.forger) return;
  if (r.asked.what == action::kind::read) {
    const std::size_t from = r.asked.offset - cell_bytes - written_bytes;
    const bool is_lost = may_be_anything(r) || (any_unreadable() && lost_devices_[r.asked.peer]);
    if (!is_lost && !is_filled(r.memory, read_pattern, from))
      fail(name(r) + " has read wrong bytes");
  }
  if (r.asked.what == action::kind::atomic && r.asked.fetch) {
    std::uint64_t before = 0;
    std::memcpy(&before, r.memory.data() + 8, 8);
    if (before >> r.asked.bit & 1) fail(name(r) + " was carried out twice, or its result is wrong");
  }
}

// Which message a receive has got, by its data or by its bytes.
record* ledger::message_of(const proto::cq_entry& entry, const record& r, const std::byte* bytes,
                           std::size_t length) {
  std::uint64_t number = 0;
  if (entry.flags & FI_REMOTE_CQ_DATA) {
    number = entry.data;
  } else if (length >= 8) {
    std::memcpy(&number, bytes, 8);
  }
  if (number == 0 || number > all_.size() || all_[number - 1].asked.what != action::kind::send) {
    if (!any_unreadable()) fail(name(r) + " has got a message that nobody sent");
    return nullptr;
  }
  return &all_[number - 1];
}

void ledger::check_message(record& r, record& sent, const proto::cq_entry& entry,
                           const std::byte* bytes, std::size_t room) {
  const std::string both = name(r) + " has got " + name(sent);
  if (!wants(r, sent)) return fail(both + ", which it does not want");
  if (sent.match || sent.is_taken) return fail(both + ", which was delivered before");
  sent.match = &r;
  const std::size_t length = std::min(room, sent.asked.length);
  const int expected = sent.asked.length > room ? FI_ETRUNC : 0;
  if (entry.error != expected) {
    const bool is_disturbed = net_.was_disturbed(r.node, sent.node) || may_have_lost_memory(r) ||
                              may_have_lost_memory(sent);
    if (!is_disturbed || entry.error == 0) fail(both + " with error " + fi_strerror(entry.error));
    return;
  }
  if (entry.length != length) return fail(both + " with a wrong length");
  if (r.asked.tagged && entry.tag != sent.asked.tag) return fail(both + " with a wrong tag");
  const bool may_be_unknown = plan_.forgets(r.node, sent.node);
  if (entry.source != sent.node && !(may_be_unknown && entry.source == FI_ADDR_NOTAVAIL))
    return fail(both + " with a wrong source");
  if (static_cast<bool>(entry.flags & FI_REMOTE_CQ_DATA) != sent.asked.has_data)
    return fail(both + " and its data, or not");
  if (may_be_anything(sent) || may_be_anything(r)) return;
  if (!is_filled({bytes, length}, sent.number)) return fail(both + " with wrong bytes");
}

void ledger::completed_receive(record& r, const proto::cq_entry& entry) {
  const bool many = r.asked.what == action::kind::receive_many;
  if (!many || (entry.flags & FI_MULTI_RECV)) {
    r.now = record::state::ended;
    r.ended = ++clock_;
    r.error = entry.error;
    r.sum = sum_of(r.memory);
  }
  if (entry.error == FI_ECANCELED) {
    if (!r.is_cancelled && !may_fail(r)) fail(name(r) + " was cancelled by nobody");
    return;
  }
  if (entry.error != 0 && entry.error != FI_ETRUNC) {
    if (!may_fail(r)) fail(name(r) + " failed without a reason: " + fi_strerror(entry.error));
    return;
  }
  if (is_of_forger(r, entry)) return;
  const std::span<const std::byte> whole = r.memory;
  const auto* bytes = many ? static_cast<const std::byte*>(entry.buffer) : whole.data();
  const auto place = static_cast<std::size_t>(bytes - whole.data());
  if (place > whole.size()) return fail(name(r) + " names a place outside its buffer");
  record* sent = message_of(entry, r, bytes, std::min(entry.length, whole.size() - place));
  if (!sent) return;
  if (many) {
    sent->place = place;
    r.messages.push_back(sent);
  } else {
    r.match = sent;
    r.got = entry.length;
  }
  check_message(r, *sent, entry, bytes, whole.size() - place);
}

void ledger::completed_peek(record& r, const proto::cq_entry& entry) {
  r.now = record::state::ended;
  r.ended = ++clock_;
  r.error = entry.error;
  if (entry.error == FI_ENOMSG || is_of_forger(r, entry)) return;
  if (entry.error != 0) return fail(name(r) + " failed: " + fi_strerror(entry.error));
  record* sent = message_of(entry, r, nullptr, 0);
  if (!sent) return;
  if (!wants(r, *sent)) return fail(name(r) + " found " + name(*sent) + ", which it does not want");
  if (sent->match || sent->is_taken)
    return fail(name(r) + " found " + name(*sent) + ", which was delivered before");
  if (entry.length != sent->asked.length) fail(name(r) + " found a wrong length");
  r.match = sent;
  if (r.asked.claim || r.asked.discard) sent->is_taken = true;
}

void ledger::completed_event(unsigned node, unsigned, const proto::cq_entry& entry,
                             std::span<const std::byte> region) {
  const std::string where = std::string(1, static_cast<char>('A' + node));
  if (entry.error != 0) {
    const bool has_lost =
        std::find(lost_devices_.begin(), lost_devices_.end(), true) != lost_devices_.end();
    if (!lost_at(node) && !has_lost) fail(where + " was told of a failed write of a peer");
    return;
  }
  if (plan_.forger) return;
  if (!(entry.flags & FI_REMOTE_WRITE) || entry.data == 0 || entry.data > all_.size())
    return fail(where + " was told of something that it did not ask for");
  record& w = all_[entry.data - 1];
  if (w.asked.what != action::kind::write || w.asked.peer != node || !w.asked.has_data)
    return fail(where + " was told of " + name(w));
  if (w.has_event) return fail(where + " was told twice of " + name(w));
  w.has_event = true;
  // Into a device that has been reset, or from one.
  if (any_unreadable() && (lost_devices_[node] || may_be_anything(w))) return;
  if (!is_filled(region.subspan(w.asked.offset, w.asked.length), w.number))
    fail(where + " was told of " + name(w) + " before its bytes were there");
}

void ledger::check_memory() {
  for (const record& r : all_) {
    const bool is_over = r.is_receive() && r.now == record::state::ended && r.sum != 0;
    if (is_over && plan_.is_honest(r.node) && sum_of(r.memory) != r.sum)
      return fail(name(r) + " was written to after its end");
    // A forger may have said that it is written to there.
    if (!plan_.is_honest(r.node) || (r.device_bytes && lost_devices_[r.node])) continue;
    if (std::any_of(r.guard.begin(), r.guard.end(), [](std::byte b) { return b != of_nobody; }))
      return fail("what is behind the memory of " + name(r) + " was written to");
  }
}

const record* ledger::missing(unsigned node, unsigned life) const {
  for (const record& r : all_) {
    if (r.asked.what != action::kind::send || r.asked.peer != node || r.match || r.is_taken)
      continue;
    if (r.peer_life != life || r.now == record::state::waiting || r.now == record::state::refused)
      continue;
    if (r.now == record::state::forgotten || r.error != 0) continue;
    if (net_.was_lost(r.node, node) || may_be_anything(r)) continue;
    return &r;
  }
  return nullptr;
}

const record* ledger::unfinished() const {
  for (const record& r : all_) {
    if (r.is_open() && !r.is_receive()) return &r;
  }
  return nullptr;
}

}  // namespace gaudi::sim
