// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint keeps of device memory that peers on its host have passed.
#include "proto/transfer/dmabuf_importer.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "../reg/fake_nic.hpp"
#include "../reg/looping_nic.hpp"
#include "base/scoped_fd.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

// Its memory would stay mapped, and its device open, as long as nobody needs the room.
TEST(dmabuf_importer, keeps_nothing_of_a_peer_whose_connection_is_gone) {
  constexpr std::uint64_t allocation = 7;
  gaudi::test::fake_nic nic;
  reg::import_cache imports(nic.core(), {.count = 8, .bytes = 1 << 20});
  auto config = small_settings();
  config.kernel = nullptr;
  config.dmabufs.imports = &imports;
  endpoint_by_itself v(config);
  peer_by_hand stays(v, packet_way::core, 1), goes(v, packet_way::core, 2);
  const auto name_of = [](const peer_by_hand& peer) {
    return reg::import_key{peer.said_of_itself().instance, allocation};
  };
  for (const peer_by_hand* peer : {&stays, &goes}) {
    const base::scoped_fd file(::memfd_create("a dma-buf", MFD_CLOEXEC));
    ASSERT_TRUE(imports.add(
        name_of(*peer),
        {.fd = file.get(), .offset = 0, .length = 4096, .base_addr = 0x1001001800000000}));
  }
  goes.close();
  stays.settle();
  EXPECT_EQ(imports.find(name_of(goes)), nullptr);
  EXPECT_NE(imports.find(name_of(stays)), nullptr);
}

class passed_by_a_peer : public testing::Test {
 protected:
  static constexpr std::uint64_t allocation = 7;
  static constexpr std::size_t length = 20'000;
  static constexpr std::uint64_t address = 0x1001001800000000;

  endpoint::settings importing() {
    auto s = small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.dmabufs.imports = &imports;
    s.loop = &loop;
    return s;
  }
  void receive() {
    EXPECT_EQ(v.ep->receives().receive(memory_of(bytes.data(), length),
                                       {.completion = v.completion(&bytes)}),
              0);
  }
  /// A long message in memory of a device that the peer can pass.
  void announce() {
    struct {
      wire::eager_fields fields{};
      wire::rts_fields rts{};
    } packet;
    static_assert(sizeof packet == sizeof(wire::eager_fields) + sizeof(wire::rts_fields));
    packet.rts.operation = 77;
    packet.rts.length = length;
    packet.rts.segment_count = 1;
    packet.rts.segments[0] = {address, allocation, length};
    packet.fields.operation = 77;
    packet.fields.head = {
        wire::kind::rts, wire::alloc_ids | wire::want_fin, 0, 0, p.known_as(), 0, 0};
    p.say_as_it_is(&packet, sizeof(wire::eager_fields) + offsetof(wire::rts_fields, segments) +
                                sizeof(wire::segment));
    p.settle();
  }
  void pass(const wire::dmabuf_ask_fields& asked) {
    const base::scoped_fd file(::memfd_create("a dma-buf", MFD_CLOEXEC));
    const ipc::fd_handshake_id to{.to_instance = p.instance_of_endpoint(),
                                  .from_instance = p.said_of_itself().instance,
                                  .to_connection = p.known_as(),
                                  .from_connection = p.said_of_itself().connection,
                                  .payload_id = allocation};
    ASSERT_TRUE(ipc::host_kernel::real().send_fd(to, file.get()));
    p.say(wire::kind::dmabuf, wire::dmabuf_fields{.head = {},
                                                  .sink_operation = asked.sink_operation,
                                                  .allocation = allocation,
                                                  .offset = 0,
                                                  .length = length,
                                                  .address = address,
                                                  .status = 0,
                                                  .reserved = 0});
    p.let_look();
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(length);
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop{nic.core()};
  reg::import_cache imports{nic.core(), {.count = 8, .bytes = 1 << 20}};
  endpoint_by_itself v{importing()};
  peer_by_hand p{v, packet_way::ring};
};

TEST_F(passed_by_a_peer, is_asked_for_and_made_known_to_the_nic) {
  receive();
  announce();
  EXPECT_EQ(p.waiting(wire::kind::cts), 0U) << "it would be copied through host memory";
  const auto asked = p.heard<wire::dmabuf_ask_fields>(wire::kind::ask_dmabuf);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->source_operation, 77U);
  pass(*asked);
  EXPECT_EQ(p.waiting(wire::kind::cts), 0U);
  EXPECT_NE(imports.find({p.said_of_itself().instance, allocation}), nullptr);
}

// What an application receives into is no peer's to take.
TEST_F(passed_by_a_peer, gives_no_dmabuf_of_its_own) {
  receive();
  announce();
  const auto asked = p.heard<wire::dmabuf_ask_fields>(wire::kind::ask_dmabuf);
  ASSERT_TRUE(asked);
  p.say(wire::kind::ask_dmabuf, wire::dmabuf_ask_fields{.head = {},
                                                        .source_operation = asked->sink_operation,
                                                        .sink_operation = 77,
                                                        .segment = 0,
                                                        .reserved = 0});
  p.let_look();
  const auto told = p.heard<wire::dmabuf_fields>(wire::kind::dmabuf);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->status, FI_ENOENT);
}

// One that passed none may say so all the same.
TEST(dmabuf_importer, hears_of_the_end_of_what_it_never_had) {
  endpoint_by_itself v;
  peer_by_hand peer(v);
  wire::allocation_fields freed{};
  freed.allocation = 7;
  peer.say(wire::kind::dmabuf_revoke, freed);
  peer.settle();
  EXPECT_FALSE(peer.is_cut_off());
}

}  // namespace
}  // namespace gaudi::proto::test
