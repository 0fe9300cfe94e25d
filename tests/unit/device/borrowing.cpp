// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "borrowing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gaudi::test {

borrowing::borrowing() : synapses_fd(::memfd_create("fake-synapse", MFD_CLOEXEC)) {
  using testing::_;
  using testing::Return;
  ON_CALL(library, device_get_info(_, _))
      .WillByDefault([this](std::uint32_t, hl::syn_device_info* info) {
        info->fd = synapses_fd.get();
        return acquired ? 0 : 26;
      });
  ON_CALL(library, scal_get_handle_from_fd(_, _)).WillByDefault([this](int fd, void**) {
    return fd == synapses_fd.get() ? 0 : -1;  // not a duplicate
  });
  ON_CALL(library, scal_pool_get_info(_, _)).WillByDefault([this](void*, hl::scal_pool_info* info) {
    *info = {
        .device_base = pool_base, .total = pool_len, .free = pool_free, .allocated_base = map_base};
    return 0;
  });
  ON_CALL(driver.library, export_dmabuf(_, _, _, _, _))
      .WillByDefault([this](int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        exports_.emplace_back(ends[0]);
        return ends[1];
      });
}

borrowing::~borrowing() = default;

base::result<std::shared_ptr<device::device>> borrowing::attach_synapse() {
  return device::device::attach_synapse(driver.thunk(),
                                        std::make_shared<const hl::synapse>(mock_synapse::table()));
}

int borrowing::exports_alive() const {
  int alive = 0;
  char byte = 0;
  for (const auto& end : exports_) alive += ::read(end.get(), &byte, 1) == 0 ? 0 : 1;
  return alive;
}

}  // namespace gaudi::test
