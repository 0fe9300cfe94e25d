// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "session.hpp"

#include <algorithm>

#include "path.hpp"

namespace gaudi::perf {
namespace {

constexpr std::uint64_t data_tag = 0xda7a;

}  // namespace

step step_for(const plan& p, std::size_t size) {
  const std::size_t slots = slots_for(p, size);
  return {.op = p.op,
          .size = size,
          .iterations = iterations_for(p, size),
          .warmup = warmup_for(p, size),
          .window = std::min<std::size_t>(p.window, slots),
          .slots = slots,
          .pages = p.pages,
          .duration = p.duration,
          .bidirectional = p.bidirectional,
          .check = p.check};
}

void connect(endpoint& ep, oob_channel& oob) {
  const auto peer = oob.exchange(ep.name());
  ep.set_peer(peer.get<std::vector<std::uint8_t>>());
  oob.set_idle_work([&ep] { ep.progress(); });
  ep.set_peer_gone([&oob] { return oob.peer_gone(); });
}

session::session(endpoint& ep, oob_channel& oob, bool client)
    : ep_(ep), oob_(oob), client_(client), control_(ep, memory_kind::host, 2) {}

void session::use_memory(memory_kind kind, std::size_t capacity) {
  tx_.reset();
  rx_.reset();
  tx_ = std::make_unique<buffer>(ep_, kind, capacity);
  rx_ = std::make_unique<buffer>(ep_, kind, capacity);
  const remote_memory tx = tx_->remote();
  const remote_memory rx = rx_->remote();
  const auto peer = oob_.exchange({tx.address, tx.key, rx.address, rx.key});
  peer_ = {.tx = {peer.at(0), peer.at(1)}, .rx = {peer.at(2), peer.at(3)}};
}

measurement session::run(const step& s) {
  if (s.pages != 0) return run_pages(s);
  measurement result{.size = s.size, .iterations = s.iterations, .latency = {}, .path = {}};
  const path_bytes before = count_paths(ep_);
  const bool rma = is_rma(s.op);
  rma ? rma_latency(s, s.warmup) : message_latency(s, s.warmup);
  result.latency =
      common::summarise(rma ? rma_latency(s, s.iterations) : message_latency(s, s.iterations));
  rma ? rma_stream(s, s.warmup) : message_stream(s, s.warmup);
  double elapsed = 0;
  std::uint64_t streamed = 0;
  do {
    elapsed += rma ? rma_stream(s, s.iterations) : message_stream(s, s.iterations);
    streamed += s.iterations;
  } while (streams_on(s, elapsed));
  result.iterations = streamed;
  const auto messages = static_cast<double>(streamed * (s.bidirectional ? 2 : 1));
  result.messages_per_second = messages / elapsed * 1e6;
  result.megabytes_per_second = messages * static_cast<double>(s.size) / elapsed;
  result.path = path_since(before);
  return result;
}

// Of both sides together.
std::string session::path_since(const path_bytes& before) {
  path_bytes moved = count_paths(ep_) - before;
  moved += oob_.exchange(moved).get<path_bytes>();
  return path_of(moved);
}

// The client decides for both, by its own clock.
bool session::streams_on(const step& s, double elapsed) {
  if (s.duration <= 0) return false;
  if (!client_) return oob_.receive().get<bool>();
  const bool more = elapsed < s.duration * 1e6;
  oob_.send(more);
  return more;
}

common::pattern session::outgoing(const step& s, phase p, std::uint64_t i) const {
  return {s.size, i, static_cast<unsigned>(p) + (client_ ? 0U : 1U)};
}

common::pattern session::incoming(const step& s, phase p, std::uint64_t i) const {
  return {s.size, i, static_cast<unsigned>(p) + (client_ ? 1U : 0U)};
}

void session::verify_at(const step& s, phase p, std::uint64_t i, const buffer& where,
                        std::size_t offset) const {
  if (const auto byte = where.find_difference(incoming(s, p, i), offset, s.size))
    throw failure(fmt::format("WRONG DATA: {} of {} bytes, iteration {}: byte {} differs",
                              name_of(s.op), s.size, i, *byte));
}

void session::post_send(const step& s, std::size_t slot, ticket& done) {
  const local_memory from = tx_->local(slot * s.size);
  if (s.op == operation::tagged)
    ep_.tagged_send(from, s.size, data_tag, done);
  else
    ep_.send(from, s.size, done);
}

void session::post_receive(const step& s, std::size_t slot, ticket& done) {
  const local_memory to = rx_->local(slot * s.size);
  if (s.op == operation::tagged)
    ep_.tagged_receive(to, s.size, data_tag, done);
  else
    ep_.receive(to, s.size, done);
}

void session::post_rma(const step& s, std::size_t slot, ticket& done) {
  const std::size_t offset = slot * s.size;
  if (s.op == operation::write)
    ep_.write(tx_->local(offset), s.size, {peer_.rx.address + offset, peer_.rx.key}, done);
  else
    ep_.read(rx_->local(offset), s.size, {peer_.tx.address + offset, peer_.tx.key}, done);
}

void session::finish_receive(const step& s, const ticket& done) {
  ep_.wait(done, "a receive");
  if (done.length() != s.size)
    throw failure(fmt::format("WRONG DATA: {} of {} bytes arrived", done.length(), s.size));
}

}  // namespace gaudi::perf
