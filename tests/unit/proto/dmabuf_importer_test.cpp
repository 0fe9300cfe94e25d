// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint keeps of device memory that peers on its host have passed.
#include "proto/transfer/dmabuf_importer.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "../reg/fake_nic.hpp"
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
