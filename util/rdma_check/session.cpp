// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/latency.hpp"
#include "common/patience.hpp"

namespace gaudi::rdma_check {
namespace {

// Operations in flight while streaming.
constexpr std::uint64_t window = 16;

}  // namespace

session::session(control& words, connection& data, memory& own, const peer_memory& peer,
                 bool client, std::chrono::seconds limit)
    : words_(words),
      data_(data),
      own_(own),
      peer_(peer),
      landing_(data.pd(), nullptr, 1),
      client_(client),
      limit_(limit) {}

measured session::run(const step& s) {
  measured own;
  mishap_.clear();
  for (const phase what : {phase::latency, phase::stream})
    for (std::uint64_t first = 0; first < s.iterations; first += s.slots)
      run_round({s, what, first, std::min<std::uint64_t>(s.slots, s.iterations - first)}, own);
  if (own.difference.empty()) own.difference = mishap_;
  return own;
}

// Both sides meet before and after the operations, so that filling and comparing are not timed.
void session::run_round(const round& r, measured& into) {
  const bool drives = r.of.client_drives == client_;
  sent_ = 0;
  received_ = 0;
  prepare(r, drives);
  words_.barrier(name_of(r.of.op));
  if (!drives)
    follow(r);
  else if (r.what == phase::latency)
    drive_one_by_one(r, into);
  else
    drive_stream(r, into);
  words_.barrier(name_of(r.of.op));
  if (own_.on_device() || peer_.on_device) {
    if (sends_data(r) && peer_.on_device) {
      flush_peer(r);
      ++into.flushes;
    }
    words_.barrier("the flush");
  }
  verify(r, into);
}

bool session::sends_data(const round& r) const {
  return r.both_ways() || r.of.data_from_client() == client_;
}

bool session::gets_data(const round& r) const {
  return r.both_ways() || r.of.data_from_client() != client_;
}

void session::prepare(const round& r, bool drives) {
  const std::size_t half = own_.length() / 2;
  if (sends_data(r))
    for (std::uint64_t i = 0; i < r.count; ++i)
      own_.fill(contents(r, i, client_), i * r.of.size, r.of.size);
  if (!r.both_ways() && (drives || !r.of.takes_receives())) return;
  const bool no_memory = r.of.op == operation::write_imm;
  for (std::uint64_t i = 0; i < r.count; ++i)
    data_.post_receive({own_.address() + half + i * r.of.size,
                        no_memory ? 0 : static_cast<std::uint32_t>(r.of.size), own_.lkey()},
                       i);
}

void session::drive_one_by_one(const round& r, measured& into) {
  for (std::uint64_t i = 0; i < r.count; ++i) {
    const common::stopwatch watch;
    post(r, i);
    wait_until(r, [&] { return sent_ > i && (!r.both_ways() || received_ > i); });
    into.latencies.push_back(watch.microseconds() / (r.both_ways() ? 2 : 1));
  }
}

// The last completion says that the peer's NIC has acknowledged everything.
void session::drive_stream(const round& r, measured& into) {
  const common::stopwatch watch;
  std::uint64_t posted = 0;
  wait_until(r, [&] {
    while (posted < r.count && posted - sent_ < window) post(r, posted++);
    return sent_ == r.count;
  });
  into.stream += watch.microseconds();
}

void session::follow(const round& r) {
  if (!r.of.takes_receives()) return;
  if (!r.both_ways()) {
    wait_until(r, [&] { return received_ == r.count; });
    return;
  }
  for (std::uint64_t i = 0; i < r.count; ++i) {
    wait_until(r, [&] { return received_ > i; });
    post(r, i);
  }
  wait_until(r, [&] { return sent_ == r.count; });
}

// A completion promises that the peer's NIC has sent the bytes on their way, not that the Gaudi's
// engines, which are to fetch them for the comparison, see them. A read by that NIC, which only
// this side can ask it for, follows its writes on the whole way and comes back when they are there.
void session::flush_peer(const round& r) {
  const std::uint64_t last_byte = peer_.length / 2 + r.count * r.of.size - 1;
  data_.post(operation::read, {landing_.address(), 1, landing_.lkey()},
             {peer_.address + last_byte, peer_.rkey}, 0);
  const ibv_wc done = wait_for_only_one("the flush");
  if (done.status != IBV_WC_SUCCESS)
    fail(fmt::format("reading back what {} wrote to a Gaudi", name_of(r.of.op)), done);
}

void session::verify(const round& r, measured& into) {
  if (!gets_data(r)) return;
  const std::size_t half = own_.length() / 2;
  for (std::uint64_t i = 0; i < r.count && into.difference.empty(); ++i) {
    const auto where =
        own_.find_difference(contents(r, i, !client_), half + i * r.of.size, r.of.size);
    if (where)
      into.difference = fmt::format("byte {} of operation {}, {}", *where, r.first + i,
                                    client_ ? "at the client" : "at the server");
  }
}

// A number for each operation of a run, so that no message has the bytes of another.
common::pattern session::contents(const round& r, std::uint64_t index, bool from_client) const {
  const std::uint64_t number =
      (r.of.number * 2 + (r.what == phase::stream ? 1 : 0)) << 32 | (r.first + index);
  return {r.of.size, number, from_client ? 0U : 1U};
}

std::uint32_t session::immediate(const round& r, std::uint64_t index) const {
  return static_cast<std::uint32_t>(r.of.number << 24 | (r.first + index));
}

void session::post(const round& r, std::uint64_t index) {
  const std::uint64_t offset = index * r.of.size;
  const bool reads = r.of.op == operation::read;
  const std::uint64_t own_half = reads ? own_.length() / 2 : 0;
  const std::uint64_t peer_half = reads ? 0 : peer_.length / 2;
  data_.post(
      r.of.op,
      {own_.address() + own_half + offset, static_cast<std::uint32_t>(r.of.size), own_.lkey()},
      {peer_.address + peer_half + offset, peer_.rkey}, immediate(r, index));
}

template <class Done>
void session::wait_until(const round& r, Done done) {
  common::patience waited(limit_);
  while (!done()) {
    if (take_completions(r))
      waited.reward();
    else if (waited.spend(name_of(r.of.op)))
      words_.look();
  }
}

bool session::take_completions(const round& r) {
  std::array<ibv_wc, 16> done;
  const std::size_t count = data_.poll(done);
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_wc& one = done.at(i);
    if (one.status != IBV_WC_SUCCESS)
      fail(fmt::format("{} of {} bytes", name_of(r.of.op), r.of.size), one);
    if ((one.opcode & IBV_WC_RECV) != 0)
      take_receive(r, one);
    else
      ++sent_;
  }
  return count > 0;
}

void session::take_receive(const round& r, const ibv_wc& done) {
  const std::uint64_t index = received_++;
  const bool counted = r.of.op == operation::write_imm;
  const bool numbered = !counted || ((done.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                                     ntohl(done.imm_data) == immediate(r, index));
  if ((done.byte_len == r.of.size && numbered) || !mishap_.empty()) return;
  mishap_ =
      fmt::format("{} of operation {}", numbered ? "length" : "immediate data", r.first + index);
}

void session::fail(const std::string& what, const ibv_wc& done) {
  // Flushed: the cause is with the peer, or with an operation that failed before.
  if (done.status == IBV_WC_WR_FLUSH_ERR) words_.look_for_a_moment();
  throw failure(
      exit_code::operation_failed,
      fmt::format("{} failed: {} (status {}, vendor's code {:#x})", what,
                  ibv_wc_status_str(done.status), static_cast<int>(done.status), done.vendor_err));
}

// For an operation that is alone in flight.
ibv_wc session::wait_for_only_one(const char* what) {
  common::patience waited(limit_);
  ibv_wc done{};
  while (data_.poll({&done, 1}) == 0)
    if (waited.spend(what)) words_.look();
  return done;
}

std::string session::write_out_of_range() {
  constexpr std::uint32_t size = 8;
  data_.post(operation::write, {own_.address(), size, own_.lkey()},
             {peer_.address + peer_.length, peer_.rkey}, 0);
  const ibv_wc done = wait_for_only_one("the write out of range");
  if (done.status == IBV_WC_REM_ACCESS_ERR) return {};
  return fmt::format("expected a remote access error, but it ended with: {}",
                     ibv_wc_status_str(done.status));
}

}  // namespace gaudi::rdma_check
