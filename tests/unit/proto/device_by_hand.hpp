// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "../copy/fake_engine.hpp"
#include "proto/operation/completion_hook.hpp"
#include "proto/operation/memory.hpp"
#include "reg/region.hpp"

namespace gaudi::proto::test {

/// A device whose engine is in the hands of the test.
struct device_by_hand {
  explicit device_by_hand(std::size_t length = 262'144) {
    memory.length = length;
    memory.address = *gaudi->allocate(memory.length);
    memory.owner = gaudi.get();
    memory.virtual_address = true;
    memory.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    // Whoever waits for a copy, and does not only ask, would wait for the test.
    ON_CALL(engine.driver.library, wait_for_cs)
        .WillByDefault(
            [this](int, std::uint64_t number, std::uint64_t wait_us, std::uint32_t* status) {
              if (wait_us != 0) engine.finish_all();
              *status = static_cast<std::uint32_t>(engine.states.at(number));
              return 0;
            });
  }
  ~device_by_hand() { EXPECT_TRUE(gaudi->lost() != 0 || gaudi->free(memory.address)); }
  [[nodiscard]] local_memory part(std::size_t length) const {
    return local_memory::inside(memory, memory.address, length);
  }
  /// Host memory cannot be mapped for the device any more.
  void refuse_mappings() {
    ON_CALL(engine.driver.library, host_memory_map).WillByDefault([](auto...) -> std::uint64_t {
      errno = ENOMEM;
      return 0;
    });
  }

  gaudi::test::fake_engine engine;
  std::shared_ptr<device::device> gaudi = engine.open();
  reg::region memory;
};

/// A device that goes in the middle of a look at the core: when the operation with this hook ends.
class last_word final : public completion_hook {
 public:
  explicit last_word(device::device& of) : device_(of) {}
  bool operation_ended(cq_entry&) noexcept override {
    device_.lose(-FI_EIO, "of the test");
    return false;
  }

 private:
  device::device& device_;
};

}  // namespace gaudi::proto::test
