// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The engine of a device that is Synapse's.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../device/borrowing.hpp"
#include "copy/copier.hpp"
#include "copy/engine_probe.hpp"

namespace gaudi::copy {
namespace {

using testing::_;
using testing::Return;

/// Streams whose copies end when the test says so.
class synapse_engine : public testing::Test {
 protected:
  struct asked {
    hl::syn_stream stream;
    std::uint64_t source, size, destination;
    hl::syn_direction direction;
  };

  synapse_engine() {
    ON_CALL(from.library, stream_create(_, _, _)).WillByDefault([this](void** handle, auto, auto) {
      return create(handle);
    });
    ON_CALL(from.library, event_create(_, _, _)).WillByDefault([this](void** handle, auto, auto) {
      return create(handle);
    });
    ON_CALL(from.library, stream_destroy(_)).WillByDefault([this](void* handle) {
      return alive.erase(handle) == 1 ? 0 : 1;
    });
    ON_CALL(from.library, event_destroy(_)).WillByDefault([this](void* handle) {
      return alive.erase(handle) == 1 ? 0 : 1;
    });
    ON_CALL(from.library, copy_async(_, _, _, _, _))
        .WillByDefault([this](void* stream, auto source, auto size, auto destination, auto dir) {
          started.push_back({stream, source, size, destination, dir});
          return 0;
        });
    ON_CALL(from.library, event_record(_, _)).WillByDefault([this](void* event, void*) {
      status[event] = busy;
      return 0;
    });
    ON_CALL(from.library, event_query(_)).WillByDefault([this](void* event) {
      return status[event];
    });
    ON_CALL(from.library, host_map(_, _, _)).WillByDefault([this](auto, auto, const void* host) {
      return mapped.insert(host).second ? 0 : 26;
    });
    ON_CALL(from.library, host_unmap(_, _)).WillByDefault([this](auto, const void* host) {
      return mapped.erase(host) == 1 ? 0 : 1;
    });
    // Of the device's queues, nothing is to be heard.
    EXPECT_CALL(from.driver.library, command_submission(_, _, _)).Times(0);
    EXPECT_CALL(from.driver.library, wait_for_cs(_, _, _, _)).Times(0);
    EXPECT_CALL(from.driver.library, host_memory_map(_, _, _, _)).Times(0);
    // Each test's device is one that nobody has measured.
    static int devices = 0;
    from.driver.bus_id = "0000:1b:00." + std::to_string(devices++);
    owner = *from.attach_synapse();
  }
  void TearDown() override {
    finish(0);
    engine.reset();
    if (owner->lost() == 0) {
      EXPECT_TRUE(alive.empty());
    }
    EXPECT_TRUE(mapped.empty());
  }
  void make(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    auto made = dma_engine::for_device(owner, {.timeout = timeout, .table = {}});
    ASSERT_TRUE(made);
    engine = *made;
  }
  void finish(int with) {
    for (auto& [event, state] : status) state = with;
  }
  int create(void** handle) {
    *handle = reinterpret_cast<void*>(++last);
    alive.insert(*handle);
    return 0;
  }
  ticket submit(direction dir = direction::host_to_device) {
    const auto copy = engine->submit(hbm, host_memory, 77, dir);
    EXPECT_TRUE(copy);
    return copy ? *copy : ticket{};
  }

  static constexpr int busy = 22, was_reset = 17;
  test::borrowing from;
  const std::uint64_t hbm = from.pool_base + 3;
  static constexpr std::uint64_t host_memory = 0x7f0000001001;
  std::shared_ptr<device::device> owner;
  std::shared_ptr<dma_engine> engine;
  std::uintptr_t last = 0;
  std::set<void*> alive;
  std::map<void*, int> status;  // of events
  std::vector<asked> started;
  std::set<const void*> mapped;
};

TEST_F(synapse_engine, gives_copies_to_a_stream_for_each_direction) {
  make();
  submit(direction::host_to_device);
  submit(direction::device_to_host);
  submit(direction::device_to_device);
  submit(direction::host_to_device);
  ASSERT_EQ(started.size(), 4U);
  EXPECT_EQ(started[0].source, host_memory);
  EXPECT_EQ(started[0].destination, hbm);
  EXPECT_EQ(started[0].size, 77U);
  EXPECT_EQ(started[0].direction, hl::syn_direction::host_to_device);
  EXPECT_EQ(started[1].direction, hl::syn_direction::device_to_host);
  EXPECT_EQ(started[2].direction, hl::syn_direction::device_to_device);
  EXPECT_EQ(started[3].stream, started[0].stream);
  const std::set<void*> streams{started[0].stream, started[1].stream, started[2].stream};
  EXPECT_EQ(streams.size(), 3U);
}

TEST_F(synapse_engine, a_ticket_is_good_until_its_end_is_told) {
  make();
  const ticket copy = submit();
  EXPECT_EQ(engine->poll(copy), -FI_EAGAIN);
  EXPECT_EQ(engine->wait(copy, 0), -FI_ETIMEDOUT);
  EXPECT_EQ(engine->wait(copy, 2), -FI_ETIMEDOUT);
  finish(0);
  EXPECT_EQ(engine->wait(copy, -1), 0);
  EXPECT_EQ(engine->poll(copy), -FI_EINVAL);
}

TEST_F(synapse_engine, waits_no_longer_than_the_copy_takes) {
  make();
  const ticket copy = submit();
  EXPECT_EQ(engine->poll(copy), -FI_EAGAIN);
  int asked_for = 0;
  ON_CALL(from.library, event_query(_)).WillByDefault([&](void*) {
    return ++asked_for < 4 ? busy : 0;
  });
  EXPECT_EQ(engine->wait(copy, 60'000), 0);
  EXPECT_EQ(asked_for, 4);
}

TEST_F(synapse_engine, goes_on_after_it_was_full) {
  make();
  std::vector<ticket> tickets;
  for (auto copy = engine->submit(hbm, host_memory, 1, direction::host_to_device); copy;
       copy = engine->submit(hbm, host_memory, 1, direction::host_to_device))
    tickets.push_back(*copy);
  EXPECT_GT(tickets.size(), 16U);
  finish(0);
  for (const ticket each : tickets) EXPECT_EQ(engine->poll(each), 0);
  submit();
}

TEST_F(synapse_engine, a_reset_loses_the_device) {
  make();
  const ticket one = submit();
  const ticket two = submit();
  finish(was_reset);
  EXPECT_EQ(engine->poll(one), -FI_EIO);
  EXPECT_EQ(owner->lost(), -FI_EIO);
  EXPECT_EQ(engine->poll(two), -FI_EIO);
  EXPECT_EQ(engine->submit(hbm, host_memory, 1, direction::host_to_device).code(), -FI_EIO);
}

TEST_F(synapse_engine, a_copy_that_is_refused_takes_no_slot) {
  make();
  EXPECT_CALL(from.library, copy_async(_, _, _, _, _)).WillRepeatedly(Return(34));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(engine->submit(hbm, host_memory, 1, direction::host_to_device).code(), -FI_EFAULT);
  EXPECT_EQ(owner->lost(), 0);
}

TEST_F(synapse_engine, a_copy_without_an_event_keeps_its_slot) {
  make();
  int failures = 3;
  EXPECT_CALL(from.library, event_record(_, _)).WillRepeatedly([&](void* event, void*) {
    if (failures-- > 0) return 27;
    status[event] = busy;
    return 0;
  });
  const ticket copy = submit();
  EXPECT_EQ(started.size(), 1U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(engine->poll(copy), -FI_EAGAIN) << "it is under way";
  finish(0);
  EXPECT_EQ(engine->poll(copy), 0);
  EXPECT_EQ(owner->lost(), 0);
}

TEST_F(synapse_engine, a_failure_of_which_nothing_is_told_loses_no_device) {
  make();
  constexpr int failed = 26;
  const ticket copy = submit();
  finish(failed);
  EXPECT_EQ(engine->poll(copy), -FI_EAGAIN) << "nobody knows when it ends";
  EXPECT_CALL(from.library, copy_async(_, _, _, _, _)).WillOnce(Return(failed));
  EXPECT_EQ(engine->submit(hbm, host_memory, 1, direction::host_to_device).code(), -FI_EOTHER);
  EXPECT_EQ(owner->lost(), 0);
  finish(0);
  EXPECT_EQ(engine->poll(copy), 0);
}

TEST_F(synapse_engine, a_copy_that_hangs_loses_the_device) {
  make(std::chrono::milliseconds(1));
  const ticket copy = submit();
  EXPECT_EQ(engine->wait(copy, -1), -FI_EIO);
  EXPECT_EQ(owner->lost(), -FI_EIO);
}

TEST_F(synapse_engine, is_not_made_in_part) {
  int left = 10;
  EXPECT_CALL(from.library, event_create(_, _, _)).WillRepeatedly([&](void** handle, auto, auto) {
    return --left < 0 ? 23 : create(handle);
  });
  EXPECT_EQ(dma_engine::for_device(owner).code(), -FI_ENOMEM);
  EXPECT_TRUE(alive.empty());
}

TEST_F(synapse_engine, host_memory_is_mapped_by_synapse_under_its_own_address) {
  std::vector<std::byte> memory(10000);
  {
    const auto pinned = pinned_region::map(owner, memory.data(), memory.size());
    ASSERT_TRUE(pinned);
    EXPECT_EQ(pinned->device_va(), reinterpret_cast<std::uintptr_t>(memory.data()));
    EXPECT_TRUE(mapped.contains(memory.data()));
  }
  EXPECT_TRUE(mapped.empty());
}

// Of the application's pool, which has what it allocated there.
TEST_F(synapse_engine, is_measured_by_reading_from_the_pool_and_writing_nothing_there) {
  make();
  EXPECT_CALL(from.library, event_query(_)).WillRepeatedly(Return(0));
  EXPECT_CALL(from.driver.library, device_memory_alloc(_, _, _, _, _)).Times(0);
  static_cast<void>(engine->table());
  ASSERT_FALSE(started.empty());
  for (const asked& each : started) {
    EXPECT_EQ(each.direction, hl::syn_direction::device_to_host);
    EXPECT_GE(each.source, from.pool_base);
    EXPECT_LE(each.source + each.size, from.pool_base + from.pool_len);
  }
  EXPECT_TRUE(mapped.empty());
}

// Callers' memory is never pinned there, so how long that takes is of no use.
TEST_F(synapse_engine, is_measured_without_pins) {
  make();
  const auto probe = engine_probe::make(*engine);
  ASSERT_TRUE(probe);
  EXPECT_FALSE((*probe)->pin(4096));
}

TEST_F(synapse_engine, has_the_defaults_where_the_pool_is_too_small_to_be_read_from) {
  owner.reset();
  from.pool_len = from.mib;
  owner = *from.attach_synapse();
  make();
  EXPECT_FALSE(engine->table()[direction::device_to_host].is_measured());
  EXPECT_TRUE(started.empty());
}

// The application may have mapped it, and Synapse would not tell the two apart.
TEST_F(synapse_engine, the_callers_memory_is_never_mapped) {
  make();
  auto used = copier::for_device(owner);
  ASSERT_TRUE(used);
  std::vector<std::byte> memory(2 * copy_row{}.pin);
  EXPECT_CALL(from.library, event_query(_)).WillRepeatedly(Return(0));
  EXPECT_TRUE((*used)->copy(from.pool_base, reinterpret_cast<std::uintptr_t>(memory.data()),
                            memory.size(), direction::host_to_device));
  std::uint64_t total = 0;
  for (const asked& each : started) {
    EXPECT_TRUE(each.source + each.size <= reinterpret_cast<std::uintptr_t>(memory.data()) ||
                each.source >= reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size());
    if (each.direction == hl::syn_direction::host_to_device) total += each.size;
  }
  EXPECT_EQ(total, memory.size());
}

TEST_F(synapse_engine, is_none_where_synapse_has_not_all_of_its_streams) {
  for (const int refused : {1, 2, 3}) {
    int asked_for = 0;
    ON_CALL(from.library, stream_create(_, _, _)).WillByDefault([&](void** handle, auto, auto) {
      return ++asked_for == refused ? was_reset : create(handle);
    });
    EXPECT_NE(dma_engine::for_device(owner).code(), 0) << refused;
    EXPECT_EQ(asked_for, refused) << "no further one";
    EXPECT_TRUE(alive.empty()) << refused;
  }
}

}  // namespace
}  // namespace gaudi::copy
