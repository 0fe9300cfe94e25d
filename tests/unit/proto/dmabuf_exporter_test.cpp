// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer on this host gets of the device memory that an endpoint sends from.
#include "proto/transfer/dmabuf_exporter.hpp"

#include <rdma/fi_errno.h>

#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

class asking_for_a_dmabuf : public testing::Test {
 protected:
  asking_for_a_dmabuf() { v.devices.add(dev.gaudi); }
  ~asking_for_a_dmabuf() override {
    v.ep.reset();
    v.devices.clear();
  }
  static endpoint::settings passing() {
    auto s = small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.dmabufs.are_passed = true;
    return s;
  }
  wire::dmabuf_fields ask_for(std::uint64_t operation, std::uint32_t segment = 0) {
    p.say(wire::kind::ask_dmabuf, wire::dmabuf_ask_fields{.head = {},
                                                          .source_operation = operation,
                                                          .sink_operation = 77,
                                                          .segment = segment,
                                                          .reserved = 0});
    p.let_look();
    const auto answer = p.heard<wire::dmabuf_fields>(wire::kind::dmabuf);
    EXPECT_TRUE(answer);
    return answer.value_or(wire::dmabuf_fields{});
  }

  device_by_hand dev;
  endpoint_by_itself v{passing()};
  peer_by_hand p{v, packet_way::ring, 1, word::given, wire::takes_dmabufs};
};

TEST_F(asking_for_a_dmabuf, gets_that_of_what_is_sent) {
  ASSERT_EQ(v.send(p.address(), dev.part(dev.memory.length), 1, &v), 0);
  p.settle();
  const auto rts = p.heard<wire::eager_fields>(wire::kind::rts);
  ASSERT_TRUE(rts);
  auto comes_to = ipc::fd_listener::open(p.said_of_itself().instance);
  ASSERT_TRUE(comes_to);
  const auto told = ask_for(rts->operation);
  EXPECT_EQ(told.status, 0);
  EXPECT_EQ(told.sink_operation, 77U);
  EXPECT_EQ(told.address, dev.memory.address);
  EXPECT_TRUE(comes_to->take({.to_instance = p.said_of_itself().instance,
                              .from_instance = p.instance_of_endpoint(),
                              .to_connection = p.said_of_itself().connection,
                              .from_connection = p.known_as(),
                              .payload_id = told.allocation}));
}

TEST_F(asking_for_a_dmabuf, gets_that_of_each_part) {
  const auto second = dev.memory.address + 100'000;
  const iovec parts[] = {{reinterpret_cast<void*>(dev.memory.address), 50'000},
                         {reinterpret_cast<void*>(second), 50'000}};
  void* const descriptors[] = {&dev.memory, &dev.memory};
  without_devices owner;
  const auto memory = local_memory::from(parts, descriptors, std::size(parts), owner);
  ASSERT_TRUE(memory);
  ASSERT_EQ(v.send(p.address(), *memory, 1, &v), 0);
  p.settle();
  const auto rts = p.heard<wire::eager_fields>(wire::kind::rts);
  ASSERT_TRUE(rts);
  auto comes_to = ipc::fd_listener::open(p.said_of_itself().instance);
  ASSERT_TRUE(comes_to);
  for (const std::uint32_t part : {0, 1}) {
    const auto told = ask_for(rts->operation, part);
    EXPECT_EQ(told.status, 0) << "part " << part;
    EXPECT_EQ(told.address, dev.memory.address) << "the allocation that both are in";
  }
  EXPECT_EQ(ask_for(rts->operation, 2).status, FI_EINVAL) << "there is none";
}

}  // namespace
}  // namespace gaudi::proto::test
