// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which message gets the staging slots of a sink, by a source that says by itself when it has
// filled one; and what a source makes of slots, by a sink that gives them out by itself.
#include <filesystem>
#include <set>

#include "device/device.hpp"
#include "hl/thunk.hpp"
#include "hostile_peer.hpp"

namespace gaudi::proto {
namespace {

using test::greeting;
using test::raw_client;
using test::victim;

// As test::victim has them.
constexpr std::size_t chunk = 65536;
constexpr std::size_t depth = 4;
constexpr std::size_t all_slots = 8 * depth;

class with_device : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = (std::filesystem::temp_directory_path() / "hlsim-slots-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder().data()), nullptr);
    setenv("HLSIM_DIR", folder().c_str(), 1);
    const auto library = hl::thunk::load(GAUDI_HLSIM);
    ASSERT_TRUE(library);
    const auto opened = device::device::open(*library, {});
    ASSERT_TRUE(opened);
    gaudi() = *opened;
  }
  static void TearDownTestSuite() {
    gaudi().reset();
    std::filesystem::remove_all(folder());
  }
  static std::string& folder() {
    static std::string name;
    return name;
  }
  static std::shared_ptr<device::device>& gaudi() {
    static std::shared_ptr<device::device> one;
    return one;
  }

  /// `instance`: of the peer.
  explicit with_device(std::uint64_t instance) {
    const hello ours = greeting(instance);
    EXPECT_EQ(peer.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
    peer.listen(512);
    name = address_of(ours);
    memory.length = std::size_t{64} * chunk;
    memory.address = *gaudi()->allocate(memory.length);
    memory.owner = gaudi().get();
    memory.virtual_address = true;
    // Chunks as long as they may be, whatever this machine would measure.
    copy::engine_config terms;
    terms.table.calibrate = false;
    auto opened = copy::dma_engine::for_device(gaudi(), terms);
    EXPECT_TRUE(opened);
    engine = *opened;
  }
  ~with_device() override {
    v.ep.reset();  // which may still copy to it
    static_cast<void>(gaudi()->free(memory.address));
  }

  /// Nothing more comes by itself.
  std::size_t heard_of(wire::kind what) {
    for (int i = 0; i < 2000; ++i) {
      v.ep->progress();
      peer.progress();
    }
    return static_cast<std::size_t>(
        std::count_if(peer.received.begin(), peer.received.end(), [&](const auto& bytes) {
          return reinterpret_cast<const wire::header*>(bytes.data())->what == what;
        }));
  }
  bool is_cut_off() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!peer.shut && std::chrono::steady_clock::now() < give_up) {
      v.ep->progress();
      peer.progress();
    }
    return peer.shut;
  }
  void tell(const void* bytes, std::size_t length) { EXPECT_TRUE(peer.send(bytes, length)); }

  reg::region memory;
  std::shared_ptr<copy::dma_engine> engine;
  victim v;
  raw_client peer;
  hello theirs{};
  net_address name;
};

class patient_source : public with_device {
 protected:
  patient_source() : with_device(60010) {}

  void offer(std::uint64_t operation, std::size_t length) {
    test::offer_staged(v, peer, theirs, local_memory::inside(memory, memory.address, length),
                       operation);
  }

  wire::cts_fields hear_grant() { return peer.hear<wire::cts_fields>(v, wire::kind::cts); }

  void fill(const wire::cts_fields& grant, std::uint32_t slot, std::size_t at) {
    wire::chunk_fields filled{};
    filled.head = {wire::kind::chunk, 0, 0, 0, theirs.connection};
    filled.operation = grant.target_operation;
    filled.offset = at;
    filled.length = chunk;
    filled.slot = slot;
    tell(&filled, sizeof filled);
  }
};

TEST_F(patient_source, gets_no_more_slots_than_its_message_fills) {
  offer(1, 3 * chunk);
  EXPECT_EQ(hear_grant().segment_count, 3U);
  offer(2, 64 * chunk);
  EXPECT_EQ(hear_grant().segment_count, depth);
}

TEST_F(patient_source, gets_a_slot_again_for_what_is_to_come) {
  offer(1, (depth + 1) * chunk);
  const auto grant = hear_grant();
  ASSERT_EQ(grant.segment_count, depth);
  fill(grant, 0, 0);
  const auto again = peer.hear<wire::chunk_fields>(v, wire::kind::slot_credit);
  EXPECT_EQ(again.operation, 1U);
  EXPECT_EQ(again.slot, 0U);
  for (std::uint32_t i = 1; i < depth; ++i) fill(grant, i, i * chunk);
  EXPECT_EQ(heard_of(wire::kind::slot_credit), 0U) << "one slot is enough for the rest";
  fill(grant, 0, depth * chunk);
  EXPECT_EQ(peer.hear<wire::fin_fields>(v, wire::kind::fin).status, 0);
}

// The data of the next message is on its way while that of the one before it is still copied.
TEST_F(patient_source, waits_for_a_slot_of_a_message_and_not_for_its_end) {
  std::vector<wire::cts_fields> grants;
  for (std::uint64_t i = 0; i < all_slots / depth; ++i) {
    offer(1 + i, depth * chunk);
    grants.push_back(hear_grant());
    ASSERT_EQ(grants.back().segment_count, depth);
  }
  offer(100, 2 * depth * chunk);
  offer(101, depth * chunk);
  EXPECT_EQ(heard_of(wire::kind::cts), 0U) << "all are given";
  fill(grants[0], 0, 0);
  auto next = hear_grant();
  EXPECT_EQ(next.source_operation, 100U);
  EXPECT_EQ(next.segment_count, 1U);
  fill(grants[1], 2, 2 * chunk);
  next = hear_grant();
  EXPECT_EQ(next.source_operation, 100U) << "first those that it wants in all";
  for (std::uint32_t i = 1; i < depth; ++i) fill(grants[0], i, i * chunk);
  EXPECT_EQ(hear_grant().source_operation, 100U);
  EXPECT_EQ(hear_grant().source_operation, 100U);
  EXPECT_EQ(hear_grant().source_operation, 101U);
  EXPECT_EQ(peer.hear<wire::fin_fields>(v, wire::kind::fin).operation, 1U);
}

TEST_F(patient_source, that_says_a_slot_is_filled_which_was_taken_back_is_cut_off) {
  offer(1, 2 * chunk);
  const auto grant = hear_grant();
  fill(grant, 0, 0);
  EXPECT_EQ(heard_of(wire::kind::slot_credit), 0U);
  EXPECT_FALSE(peer.shut);
  fill(grant, 0, chunk);
  EXPECT_TRUE(is_cut_off());
}

// It fills none of those that it has, which may be all for a peer that is alone.
TEST_F(patient_source, that_is_stopped_leaves_some_for_other_peers) {
  for (std::uint64_t i = 0; i < all_slots / depth; ++i) {
    offer(1 + i, depth * chunk);
    ASSERT_EQ(hear_grant().segment_count, depth);
  }
  raw_client other;
  const hello ours = greeting(60012);
  hello of_victim{};
  ASSERT_EQ(other.connect(v, &ours, sizeof ours, of_victim), FI_CONNECTED);
  other.listen(64);
  offer(100, depth * chunk);
  EXPECT_EQ(heard_of(wire::kind::cts), 0U) << "one of two has no more than half";
  test::offer_staged(v, other, of_victim,
                     local_memory::inside(memory, memory.address, depth * chunk), 7);
  const auto granted = other.hear<wire::cts_fields>(v, wire::kind::cts);
  EXPECT_EQ(granted.source_operation, 7U);
  EXPECT_GE(granted.segment_count, staging_pool::floor);
}

class generous_sink : public with_device {
 protected:
  generous_sink() : with_device(60011) {
    fid_mr* mr = nullptr;
    EXPECT_EQ(fi_mr_reg(peer.domain.get(), slots.data(), slots.size(), FI_REMOTE_WRITE, 0, 5, 0,
                        &mr, nullptr),
              0);
    known.reset(mr);
    const auto to = *v.addresses.add(name);
    const auto all = local_memory::inside(memory, memory.address, length);
    const completion_spec completion{.queue = &v.queue, .report = true};
    int rc = -FI_EAGAIN;
    for (int i = 0; i < 1000 && rc == -FI_EAGAIN; ++i) {
      rc = v.ep->send(all, {.to = to, .completion = completion});
      v.ep->progress();
    }
    EXPECT_EQ(rc, 0);
    operation = peer.hear<wire::eager_fields>(v, wire::kind::rts).operation;
  }

  void grant(std::uint32_t first, std::uint32_t count, std::size_t wanted = length) {
    wire::cts_fields g{};
    g.head = {wire::kind::cts, 0, 0, 0, theirs.connection};
    g.source_operation = operation;
    g.target_operation = 77;
    g.length = wanted;
    g.segment_count = count;
    for (std::uint32_t i = 0; i < count; ++i)
      g.segments[i] = {reinterpret_cast<std::uint64_t>(slots.data()) + (first + i) * chunk,
                       fi_mr_key(known.get()), chunk};
    tell(&g, offsetof(wire::cts_fields, segments) + count * sizeof(wire::segment));
  }

  void export_again(std::uint32_t slot) {
    wire::chunk_fields freed{};
    freed.head = {wire::kind::slot_credit, 0, 0, 0, theirs.connection};
    freed.operation = operation;
    freed.slot = slot;
    tell(&freed, sizeof freed);
  }

  /// The slots that hold the next chunks of the message, from the one at `first` on; they come in
  /// any order.
  std::set<std::uint32_t> hear_filled(std::size_t first, std::size_t count = 1) {
    std::set<std::uint32_t> filled;
    std::set<std::size_t> offsets;
    std::set<std::size_t> expected;
    for (std::size_t i = 0; i < count; ++i) {
      const auto one = peer.hear<wire::chunk_fields>(v, wire::kind::chunk);
      EXPECT_EQ(one.operation, 77U);
      EXPECT_EQ(one.length, chunk);
      filled.insert(one.slot);
      offsets.insert(one.offset);
      expected.insert(first + i * chunk);
    }
    EXPECT_EQ(offsets, expected);
    return filled;
  }

  static constexpr std::size_t length = 32 * chunk;
  std::vector<std::byte> slots = std::vector<std::byte>(wire::max_slots * chunk);
  core::unique_fid<fid_mr> known;
  std::uint64_t operation = 0;
};

TEST_F(generous_sink, may_give_more_slots_later) {
  using numbers = std::set<std::uint32_t>;
  grant(0, 1);
  EXPECT_EQ(hear_filled(0), numbers{0});
  EXPECT_EQ(heard_of(wire::kind::chunk), 0U);
  grant(1, 2);
  EXPECT_EQ(hear_filled(chunk, 2), (numbers{1, 2}));
  export_again(0);
  EXPECT_EQ(hear_filled(3 * chunk), numbers{0});
  export_again(2);
  EXPECT_EQ(hear_filled(4 * chunk), numbers{2});
}

TEST_F(generous_sink, that_changes_the_length_meanwhile_is_cut_off) {
  grant(0, 1);
  hear_filled(0);
  grant(1, 1, length / 2);
  EXPECT_TRUE(is_cut_off());
}

TEST_F(generous_sink, that_gives_more_slots_than_there_may_be_is_cut_off) {
  grant(0, 1);
  hear_filled(0);
  grant(0, wire::max_slots);
  EXPECT_TRUE(is_cut_off());
}

}  // namespace
}  // namespace gaudi::proto
