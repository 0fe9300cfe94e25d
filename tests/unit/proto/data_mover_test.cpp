// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What moves the bytes of transfers: what the peer is told, and when. Copies of the device end when
// a test says so, and how.
#include "proto/transfer/data_mover.hpp"

#include <unistd.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "base/outstanding_page.hpp"
#include "base/path_reasons.hpp"
#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using hl::cs_status;
using test::device_by_hand;
using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;

constexpr std::size_t chunk = 65536;

class moved_bytes : public testing::Test {
 protected:
  explicit moved_bytes(packet_way way = packet_way::core) : moved_bytes(settings(), way) {}
  explicit moved_bytes(const endpoint::settings& config, packet_way way = packet_way::core)
      : v(config) {
    peer.emplace(v, way);
  }
  ~moved_bytes() override {
    dev.engine.finish_all();
    v.ep.reset();  // which may still copy
  }

  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.staging_depth = 2;
    s.kernel = &ipc::host_kernel::real();
    // Chunks as long as they may be, whatever this machine would measure.
    s.copies.table.calibrate = false;
    s.rendezvous = base::rendezvous_choice::write;
    return s;
  }

  /// The peer announces a message, which is received into `memory`; where it is to be written.
  std::optional<wire::cts_fields> offer(const local_memory& memory) {
    EXPECT_EQ(v.ep->receives().receive(memory, {.completion = v.completion()}), 0);
    peer->announce(operation_of_peer, memory.length());
    peer->settle();
    return peer->heard<wire::cts_fields>(wire::kind::cts);
  }
  void say_filled(const wire::cts_fields& cts, std::uint32_t slot, std::uint64_t offset,
                  std::uint32_t length) {
    wire::chunk_fields filled{};
    filled.operation = cts.target_operation;
    filled.offset = offset;
    filled.length = length;
    filled.slot = slot;
    peer->say(wire::kind::chunk, filled);
    peer->settle();
  }

  /// A message of so many bytes to the peer; its operation.
  std::uint64_t send(const local_memory& memory) {
    EXPECT_EQ(v.ep->send(memory, {.to = peer->address(), .completion = v.completion()}), 0);
    peer->settle();
    const auto rts = peer->heard<wire::eager_fields>(wire::kind::rts);
    return rts ? rts->operation : 0;
  }
  /// The peer says where to write.
  void grant(std::uint64_t operation, std::size_t length, const wire::segment& place,
             std::uint8_t flags) {
    peer->grant(operation, operation_of_peer, length, place, flags);
  }
  void finish(cs_status how) {
    dev.engine.finish_all(how);
    peer->settle();
  }

  static constexpr std::uint64_t operation_of_peer = 77;
  device_by_hand dev;
  endpoint_by_itself v;
  std::optional<peer_by_hand> peer;
};

class slots_of_a_sink : public moved_bytes {};

TEST_F(slots_of_a_sink, are_copied_to_the_device_before_the_source_hears_of_the_end) {
  const auto cts = offer(dev.part(1000));
  ASSERT_TRUE(cts);
  say_filled(*cts, 0, 0, 1000);
  ASSERT_EQ(dev.engine.submitted.size(), 1U);
  const hl::lin_dma copy = dev.engine.submitted[0].packets.at(0);
  EXPECT_EQ(copy.src, cts->segments[0].address);
  EXPECT_EQ(copy.dst, dev.memory.address);
  EXPECT_FALSE(peer->heard<wire::fin_fields>(wire::kind::fin)) << "while the device copies";
  EXPECT_EQ(v.take().error, FI_ENODATA);
  finish(cs_status::completed);
  const auto fin = peer->heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->operation, operation_of_peer);
  EXPECT_EQ(fin->status, 0);
  EXPECT_EQ(v.take().error, 0);
}

/// What others see of an operation of so many bytes.
base::outstanding::record shown_operation(std::size_t length) {
  namespace outstanding = base::outstanding;
  std::vector<outstanding::record> all(outstanding::max_operations);
  const std::size_t size = all.size() * sizeof all[0];
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  for (const outstanding::record& r : all)
    if (r.kind == outstanding::record_kind::operation && r.total == length) return r;
  return {};
}

TEST_F(slots_of_a_sink, are_shown_with_the_reason_for_them) {
  ASSERT_TRUE(offer(dev.part(1003)));
  EXPECT_EQ(shown_operation(1003).counts[base::outstanding::path_reason_code],
            static_cast<std::uint64_t>(base::path_reason::device_is_not_reached));
}

/// What a chunk may not say: where it begins, and how long it is.
struct wrong_chunk {
  std::uint64_t offset;
  std::uint32_t length;
};
class wrong_chunks : public slots_of_a_sink, public testing::WithParamInterface<wrong_chunk> {};

TEST_P(wrong_chunks, are_copied_nowhere_and_end_the_connection) {
  const auto cts = offer(dev.part(2 * chunk));
  ASSERT_TRUE(cts);
  say_filled(*cts, 0, GetParam().offset, GetParam().length);
  EXPECT_TRUE(dev.engine.submitted.empty());
  EXPECT_TRUE(peer->is_cut_off());
  EXPECT_NE(v.take().error, 0);
}

INSTANTIATE_TEST_SUITE_P(that, wrong_chunks,
                         testing::Values(wrong_chunk{2 * chunk - 1, 2},  // end behind the transfer
                                         wrong_chunk{2 * chunk + 1, 1},  // begin there
                                         wrong_chunk{UINT64_MAX, 2},     // wrap around
                                         wrong_chunk{0, chunk + 1}));    // fill more than a slot

TEST_F(slots_of_a_sink, that_end_with_the_transfer_are_copied) {
  const auto cts = offer(dev.part(2 * chunk));
  ASSERT_TRUE(cts);
  say_filled(*cts, 1, chunk, chunk);
  ASSERT_EQ(dev.engine.submitted.size(), 1U);
  EXPECT_EQ(dev.engine.submitted[0].packets.at(0).dst, dev.memory.address + chunk);
  EXPECT_FALSE(peer->is_cut_off());
}

// Not a loss of the device, which would end the transfer for a reason of its own.
TEST_F(slots_of_a_sink, that_cannot_be_copied_fail_the_message_at_both_ends) {
  const auto cts = offer(dev.part(1000));
  ASSERT_TRUE(cts);
  dev.refuse_mappings();
  say_filled(*cts, 0, 0, 1000);
  const auto fin = peer->heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_NE(fin->status, 0);
  EXPECT_NE(v.take().error, 0);
  EXPECT_EQ(dev.gaudi->lost(), 0);
}

TEST_F(slots_of_a_sink, are_full_until_the_device_has_emptied_them) {
  const auto cts = offer(dev.part(2 * chunk));
  ASSERT_TRUE(cts);
  say_filled(*cts, 0, 0, 1000);
  say_filled(*cts, 0, 1000, 1000);
  EXPECT_EQ(dev.engine.submitted.size(), 1U) << "it would be overwritten while it is copied";
  EXPECT_TRUE(peer->is_cut_off());
}

class payload_of_a_device : public moved_bytes {};

TEST_F(payload_of_a_device, that_was_not_loaded_is_not_sent) {
  EXPECT_EQ(v.ep->send(dev.part(1000), {.to = peer->address(), .completion = v.completion()}), 0);
  peer->settle();
  EXPECT_FALSE(peer->heard<wire::eager_fields>(wire::kind::eager)) << "while the device copies";
  finish(cs_status::aborted);
  EXPECT_FALSE(peer->heard<wire::eager_fields>(wire::kind::eager));
  EXPECT_EQ(v.take().error, FI_EIO);
}

// Those behind it are on their way meanwhile.
TEST_F(payload_of_a_device, that_was_not_loaded_lets_the_next_message_go) {
  EXPECT_EQ(v.ep->send(dev.part(1000), {.to = peer->address(), .completion = v.completion()}), 0);
  EXPECT_EQ(v.ep->send({}, {.to = peer->address(), .tag = 5, .completion = v.completion(&v)}), 0);
  peer->settle();
  EXPECT_FALSE(peer->heard<wire::eager_fields>(wire::kind::eager)) << "it would overtake";
  finish(cs_status::aborted);
  const auto next = peer->heard<wire::eager_fields>(wire::kind::eager);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->tag, 5U);
  EXPECT_EQ(v.take().error, FI_EIO);
  EXPECT_EQ(v.take().context, &v);
}

TEST_F(payload_of_a_device, that_answers_a_read_is_not_sent_where_it_was_not_loaded) {
  ASSERT_TRUE(v.keys.add_requested(dev.memory, 5));
  wire::rma_fields read{};
  read.operation = operation_of_peer;
  read.address = dev.memory.address;
  read.key = dev.memory.key;
  read.length = 1000;
  peer->say(wire::kind::read, read);
  peer->settle();
  EXPECT_EQ(dev.engine.submitted.size(), 1U);
  EXPECT_FALSE(peer->heard<wire::fin_fields>(wire::kind::read_reply)) << "while the device copies";
  finish(cs_status::aborted);
  EXPECT_FALSE(peer->heard<wire::fin_fields>(wire::kind::read_reply));
  const auto fin = peer->heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->operation, operation_of_peer);
  EXPECT_EQ(fin->status, FI_EIO);
}

TEST_F(payload_of_a_device, that_a_receive_did_not_get_fails_it) {
  EXPECT_EQ(v.ep->receives().receive(dev.part(1000), {.completion = v.completion()}), 0);
  dev.refuse_mappings();
  struct {
    wire::header head{};
    std::uint64_t tag = 0;
    std::byte payload[1000]{};
  } message;
  peer->say(wire::kind::eager, message);
  peer->settle();
  EXPECT_EQ(v.take().error, FI_ENOMEM);
  EXPECT_EQ(dev.gaudi->lost(), 0);
}

class chunks_of_a_source : public moved_bytes {
 protected:
  std::vector<std::byte> slot = std::vector<std::byte>(chunk);
};

TEST_F(chunks_of_a_source, are_announced_when_they_are_loaded) {
  const auto operation = send(dev.part(5000));
  grant(operation, 5000, peer->expose(slot), 0);
  peer->settle();
  ASSERT_EQ(dev.engine.submitted.size(), 1U);
  EXPECT_EQ(dev.engine.submitted[0].packets.at(0).src, dev.memory.address);
  EXPECT_FALSE(peer->heard<wire::chunk_fields>(wire::kind::chunk)) << "while the device copies";
  finish(cs_status::completed);
  const auto filled = peer->heard<wire::chunk_fields>(wire::kind::chunk);
  ASSERT_TRUE(filled);
  EXPECT_EQ(filled->operation, operation_of_peer);
  EXPECT_EQ(filled->length, 5000U);
  EXPECT_EQ(v.take().error, FI_ENODATA) << "the sink has not said that it is done";
}

TEST_F(chunks_of_a_source, that_were_not_loaded_are_not_announced) {
  const auto operation = send(dev.part(5000));
  grant(operation, 5000, peer->expose(slot), 0);
  peer->settle();
  finish(cs_status::aborted);
  EXPECT_FALSE(peer->heard<wire::chunk_fields>(wire::kind::chunk));
  const auto fin = peer->heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->status, FI_EIO);
  EXPECT_EQ(v.take().error, FI_EIO);
}

// Of a transfer that writes to the peer's memory itself; short chunks, so that there are many.
class staged_writes : public chunks_of_a_source {
 protected:
  static constexpr std::size_t length = 262'144;
  staged_writes() { place.resize(length); }
  void start() {
    const auto operation = send(dev.part(length));
    grant(operation, length, peer->expose(place), wire::direct);
    peer->settle();
  }
  std::vector<std::byte> place;
};

TEST_F(staged_writes, have_no_more_chunks_under_way_than_the_user_allows) {
  start();
  EXPECT_EQ(dev.engine.submitted.size(), settings().staging_depth);
  EXPECT_EQ(v.paths.staged_ops, settings().staging_depth);
  finish(cs_status::completed);
  EXPECT_GT(v.paths.staged_ops, settings().staging_depth);
}

/// Packets go through shared memory, and long data by the core: the two do not know of each other.
class data_by_the_core : public moved_bytes {
 protected:
  data_by_the_core() : moved_bytes(packet_way::ring_alone) {}
  std::vector<std::byte> sent = test::counting(100'000);
  std::vector<std::byte> place = std::vector<std::byte>(100'000);
};

TEST_F(data_by_the_core, is_not_overtaken_by_the_word_that_it_is_there) {
  const auto operation = send(test::memory_of(sent.data(), sent.size()));
  grant(operation, sent.size(), peer->expose(place), wire::direct);
  peer->let_look();
  EXPECT_FALSE(peer->heard<wire::fin_fields>(wire::kind::fin)) << "the core has it still";
  peer->settle();
  EXPECT_FALSE(peer->heard_by<wire::fin_fields>(packet_way::ring, wire::kind::fin));
  EXPECT_TRUE(peer->heard_by<wire::fin_fields>(packet_way::core, wire::kind::fin));
  EXPECT_EQ(place, sent);
}

// What the core gives back with its connection can still be on its way.
TEST_F(data_by_the_core, is_not_overtaken_by_the_word_that_it_failed) {
  const auto operation = send(test::memory_of(sent.data(), sent.size()));
  grant(operation, sent.size(), peer->expose(place), wire::direct);
  peer->let_look();
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  peer->settle();
  EXPECT_EQ(v.take().error, FI_ECONNRESET);
  EXPECT_FALSE(peer->heard_by<wire::fin_fields>(packet_way::ring, wire::kind::fin));
}

TEST_F(data_by_the_core, of_a_device_is_not_overtaken_either) {
  const auto operation = send(dev.part(5000));
  grant(operation, 5000, peer->expose(place), 0);
  peer->let_look();
  finish(cs_status::completed);
  EXPECT_FALSE(peer->heard_by<wire::chunk_fields>(packet_way::ring, wire::kind::chunk));
  EXPECT_TRUE(peer->heard_by<wire::chunk_fields>(packet_way::core, wire::kind::chunk));
}

/// One-sided ones, which the peer hears nothing of.
class staged_rma : public moved_bytes {
 protected:
  static constexpr std::size_t length = 262'144;  // of several chunks

  explicit staged_rma(const endpoint::settings& config = settings()) : moved_bytes(config) {
    segment = peer->expose(place);
  }
  int write() {
    return v.ep->write(dev.part(length), {.target = peer->address(),
                                          .address = segment.address,
                                          .key = segment.key,
                                          .completion = v.completion()});
  }
  void finish_all() {
    for (int i = 0; i < 20; ++i) finish(cs_status::completed);
  }
  std::vector<std::byte> place = std::vector<std::byte>(length);
  wire::segment segment;
};

class staged_rma_in_order : public staged_rma {
 protected:
  static endpoint::settings in_order() {
    auto s = settings();
    s.rma_order = true;
    return s;
  }
  staged_rma_in_order() : staged_rma(in_order()) {}
};

TEST_F(staged_rma_in_order, keeps_the_next_back_until_all_of_it_is_under_way) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(), 0) << i;
    peer->settle();
    EXPECT_EQ(write(), -FI_EAGAIN) << "the first chunks are";
    finish_all();
    EXPECT_EQ(v.take().error, 0);
  }
}

// There are as many for all peers as eight operations may have (staging_pool::limit_for).
TEST_F(staged_rma, waits_for_chunks_that_others_have) {
  constexpr int count = 12;
  for (int i = 0; i < count; ++i) ASSERT_EQ(write(), 0);
  peer->settle();
  finish_all();
  for (int i = 0; i < count; ++i) EXPECT_EQ(v.take().error, 0);
}

}  // namespace
}  // namespace gaudi::proto
