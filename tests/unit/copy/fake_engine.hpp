// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "../device/fake_driver.hpp"
#include "device/device.hpp"

namespace gaudi::test {

/// A device whose submissions stay busy until the test says what becomes of them. Host memory keeps
/// its address in the device's eyes, so that command buffers can be read back.
class fake_engine {
 public:
  struct submission {
    std::uint32_t queue;
    std::vector<hl::lin_dma> packets;
  };

  fake_engine() {
    using testing::_;
    driver.bus_id = new_bus_id();
    ON_CALL(driver.library, host_memory_map(_, _, _, _))
        .WillByDefault([this](int, void* ptr, std::uint64_t, std::uint64_t) {
          const auto va = reinterpret_cast<std::uintptr_t>(ptr);
          ++host_maps;
          return va;
        });
    ON_CALL(driver.library, memory_unmap(_, _)).WillByDefault([this](int, std::uint64_t va) {
      if (device::is_device_address(va)) return driver.unmap(va);
      --host_maps;
      return 0;
    });
    ON_CALL(driver.library, command_submission(_, _, _))
        .WillByDefault([this](int, hl::cs_in* in, hl::cs_out* out) { return submit(in, out); });
    ON_CALL(driver.library, wait_for_cs(_, _, _, _))
        .WillByDefault([this](int, std::uint64_t seq, std::uint64_t, std::uint32_t* status) {
          *status = static_cast<std::uint32_t>(states.at(seq));
          return 0;
        });
  }

  std::shared_ptr<device::device> open() {
    auto opened = device::device::open(driver.thunk(), {});
    EXPECT_TRUE(opened);
    return opened ? *opened : nullptr;
  }
  void finish_all(hl::cs_status with = hl::cs_status::completed) {
    for (auto& [seq, state] : states) state = with;
  }

  fake_driver driver;
  std::vector<submission> submitted;
  std::map<std::uint64_t, hl::cs_status> states;
  int host_maps = 0;

 private:
  /// What is measured of a device is known in the process for good, so each is another one.
  static std::string new_bus_id() {
    static unsigned made = 0x100;  // no simulated device has one of these
    ++made;
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "%04x:%02x:00.0", made >> 8, made & 0xff);
    return text.data();
  }

  int submit(hl::cs_in* in, hl::cs_out* out) {
    const auto& chunk = *static_cast<const hl::cs_chunk*>(in->chunks_execute);
    EXPECT_EQ(chunk.flags, hl::chunk_user_cb);
    EXPECT_EQ(chunk.cb_size % sizeof(hl::lin_dma), 0U);
    const auto* first = reinterpret_cast<const hl::lin_dma*>(chunk.cb_handle);
    const std::span packets(first, chunk.cb_size / sizeof(hl::lin_dma));
    submitted.push_back({chunk.queue_index, {packets.begin(), packets.end()}});
    out->seq = submitted.size();
    states[out->seq] = hl::cs_status::busy;
    return 0;
  }
};

}  // namespace gaudi::test
