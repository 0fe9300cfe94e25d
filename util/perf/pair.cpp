// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pair.hpp"

#include <fmt/format.h>

namespace gaudi::perf {
namespace {

constexpr std::uint64_t data_tag = 0xda7a;
constexpr std::uint64_t ack_tag = 0xacc;

}  // namespace

pair::pair(const endpoint_request& request, unsigned number, bool client)
    : ep_(request), number_(number), client_(client), control_(ep_, memory_kind::host, 2) {}

void pair::connect(oob_channel& oob) {
  const auto peer = oob.exchange(ep_.name());
  ep_.set_peer(peer.get<std::vector<std::uint8_t>>());
}

void pair::use_memory(memory_kind kind, std::size_t capacity, oob_channel& oob) {
  tx_.reset();
  rx_.reset();
  tx_ = std::make_unique<buffer>(ep_, kind, capacity);
  rx_ = std::make_unique<buffer>(ep_, kind, capacity);
  const remote_memory tx = tx_->remote();
  const remote_memory rx = rx_->remote();
  const auto peer = oob.exchange({tx.address, tx.key, rx.address, rx.key});
  peer_ = {.tx = {peer.at(0), peer.at(1)}, .rx = {peer.at(2), peer.at(3)}};
}

bool pair::post_send(const step& s, std::size_t slot, ticket& done) {
  const local_memory from = tx_->local(slot * s.size);
  return s.op == operation::tagged ? ep_.tagged_send(from, s.size, data_tag, done)
                                   : ep_.send(from, s.size, done);
}

bool pair::post_receive(const step& s, std::size_t slot, ticket& done) {
  const local_memory to = rx_->local(slot * s.size);
  return s.op == operation::tagged ? ep_.tagged_receive(to, s.size, data_tag, done)
                                   : ep_.receive(to, s.size, done);
}

bool pair::post_rma(const step& s, std::size_t here, std::size_t there, ticket& done, bool more) {
  if (s.op == operation::write)
    return ep_.write(tx_->local(here), s.size, {peer_.rx.address + there, peer_.rx.key}, done,
                     more);
  return ep_.read(rx_->local(here), s.size, {peer_.tx.address + there, peer_.tx.key}, done, more);
}

bool pair::post_ack(ticket& done) {
  return ep_.tagged_send(control_.local(0), 1, ack_tag, done);
}

bool pair::await_ack(ticket& done) {
  return ep_.tagged_receive(control_.local(1), 1, ack_tag, done);
}

// They differ by the pair, by the part of the measurement and by the side that they come from.
common::pattern pair::bytes_of(const step& s, phase p, std::uint64_t i, bool of_client) const {
  return {s.size, i, number_ * 4 + static_cast<unsigned>(p) * 2 + (of_client ? 0U : 1U)};
}

void pair::fill(const step& s, phase p, std::uint64_t i, std::size_t offset) {
  tx_->fill(bytes_of(s, p, i, client_), offset, s.size);
}

void pair::verify(const step& s, phase p, std::uint64_t i, std::size_t offset) const {
  if (const auto byte = rx_->find_difference(bytes_of(s, p, i, !client_), offset, s.size))
    throw failure(fmt::format("WRONG DATA: {} of {} bytes, pair {}, iteration {}: byte {} differs",
                              name_of(s.op), s.size, number_, i, *byte));
}

void expect_length(const step& s, const ticket& received) {
  if (received.length() != s.size)
    throw failure(fmt::format("WRONG DATA: {} of {} bytes arrived", received.length(), s.size));
}

}  // namespace gaudi::perf
