// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "../hl/mock_synapse.hpp"
#include "base/scoped_fd.hpp"
#include "device/device.hpp"
#include "fake_driver.hpp"

namespace gaudi::test {

/// A process whose Synapse has a device: what it says can be changed.
class borrowing {
 public:
  static constexpr std::uint64_t mib = 1 << 20;

  borrowing();
  ~borrowing();
  borrowing(const borrowing&) = delete;
  borrowing& operator=(const borrowing&) = delete;

  base::result<std::shared_ptr<device::device>> attach_synapse();

  /// Of which somebody still has a descriptor.
  [[nodiscard]] int exports_alive() const;

  fake_driver driver;
  testing::NiceMock<mock_synapse> library;
  base::scoped_fd synapses_fd;
  bool acquired = true;
  std::uint64_t map_base = 0x1001500010000000;
  std::uint64_t pool_base = map_base + 64 * mib;
  std::uint64_t pool_len = 512 * mib;
  std::uint64_t pool_free = 100 * mib;

 private:
  std::vector<base::scoped_fd> exports_;  // the reading ends of pipes, which see the others close
};

}  // namespace gaudi::test
