// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device that is Synapse's: its descriptor, its pool, and how the provider lets go of them.
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "../base/scarce_memory.hpp"
#include "../proto/logged_warnings.hpp"
#include "borrowing.hpp"
#include "device/device_registry.hpp"

namespace gaudi::device {
namespace {

using testing::_;

bool is_same_file(int a, int b) {
  struct stat one {};
  struct stat other {};
  return ::fstat(a, &one) == 0 && ::fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
         one.st_dev == other.st_dev;
}

class borrowed : public testing::Test {
 protected:
  test::borrowing from;
  const device_spec any{device_spec::first_free{}};
};

TEST_F(borrowed, has_synapses_pool_as_one_range) {
  EXPECT_CALL(from.driver.library, open(_, _)).Times(0);
  const auto one = from.attach_synapse();
  ASSERT_TRUE(one);
  EXPECT_FALSE((*one)->attributes().owned);
  EXPECT_NE((*one)->synapse(), nullptr);
  const auto at = (*one)->find(from.pool_base + 12345, 100);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->base, from.pool_base);
  EXPECT_EQ(at->len, from.pool_len);
  EXPECT_TRUE(at->adopted);
  EXPECT_EQ((*one)->find(from.map_base, 1).code(), -FI_ENOENT) << "SCAL's own";
  EXPECT_EQ(*from.attach_synapse(), *one) << "one for the process";
}

TEST_F(borrowed, exports_the_pool_once_from_its_offset_on) {
  EXPECT_CALL(from.driver.library,
              export_dmabuf(_, from.map_base, from.pool_len, from.pool_base - from.map_base, _));
  const auto one = from.attach_synapse();
  for (const std::uint64_t offset : {0, 4096, 12345}) {
    const auto exported = (*one)->export_dmabuf(from.pool_base + offset, 10);
    ASSERT_TRUE(exported);
    EXPECT_EQ(exported->base_addr, from.pool_base);
    EXPECT_EQ(exported->offset, offset);
  }
}

// HCL registers its flush region there.
TEST_F(borrowed, knows_where_an_export_of_the_pool_is_under_addresses_before_it) {
  const auto one = from.attach_synapse();
  ASSERT_TRUE(one);
  const device& d = **one;
  EXPECT_EQ(*d.pool_alias(from.map_base, 4), from.pool_base);
  EXPECT_EQ(*d.pool_alias(from.map_base + 5, 4), from.pool_base + 5);
  const std::uint64_t reserved = from.pool_base - from.map_base;
  EXPECT_TRUE(d.pool_alias(from.map_base, reserved));
  EXPECT_EQ(d.pool_alias(from.map_base, reserved + 1).code(), -FI_EINVAL);
  EXPECT_EQ(d.pool_alias(from.pool_base, 4).code(), -FI_EINVAL);
  EXPECT_EQ(d.pool_alias(from.map_base - 1, 4).code(), -FI_EINVAL);
  EXPECT_EQ(d.pool_alias(from.map_base, ~std::uint64_t{0}).code(), -FI_EINVAL);
}

TEST_F(borrowed, leaves_out_what_is_not_a_whole_page) {
  from.pool_base += 256;
  const auto one = from.attach_synapse();
  ASSERT_TRUE(one);
  const std::uint64_t first = from.pool_base - 256 + 4096;
  EXPECT_EQ((*one)->find(first - 1, 1).code(), -FI_ENOENT);
  EXPECT_EQ((*one)->find(first, 1)->len, from.pool_len - 4096);
}

TEST_F(borrowed, uses_a_duplicate_and_closes_only_that) {
  auto one = from.attach_synapse();
  const int used = (*one)->fd();
  EXPECT_NE(used, from.synapses_fd.get());
  one = base::error{-FI_ENODEV};
  EXPECT_EQ(::fcntl(used, F_GETFD), -1);
  EXPECT_NE(::fcntl(from.synapses_fd.get(), F_GETFD), -1);
}

TEST_F(borrowed, is_refused_until_there_is_one) {
  from.acquired = false;
  EXPECT_EQ(from.attach_synapse().code(), -FI_ENODEV);
  from.acquired = true;
  EXPECT_TRUE(from.attach_synapse());
}

TEST_F(borrowed, is_refused_without_a_descriptor_for_the_duplicate) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int refused = from.attach_synapse().code();
  ::setrlimit(RLIMIT_NOFILE, &before);
  // As fcntl(2) has it where no number at all is allowed.
  EXPECT_TRUE(refused == -EINVAL || refused == -EMFILE) << refused;
}

TEST_F(borrowed, a_pool_elsewhere_is_refused) {
  from.pool_base = from.map_base = 0x10000;
  EXPECT_EQ(from.attach_synapse().code(), -FI_EINVAL);
}

TEST_F(borrowed, without_a_pool_is_refused) {
  ON_CALL(from.library, scal_pool_get_info(_, _)).WillByDefault(testing::Return(-1));
  const proto::test::logged_warnings logged;
  EXPECT_EQ(from.attach_synapse().code(), -FI_ENODEV);
  EXPECT_THAT(logged.text(), testing::HasSubstr("SCAL query failed"));
}

TEST_F(borrowed, allocates_nothing) {
  const auto one = from.attach_synapse();
  EXPECT_EQ((*one)->allocate(4096).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(*(*one)->hbm_free(), from.pool_free) << "Synapse does";
}

TEST_F(borrowed, lets_go_of_everything_while_it_rests) {
  const auto one = from.attach_synapse();
  const auto generation = (*one)->find(from.pool_base, 1)->allocation_id;
  const int used = (*one)->fd();
  ASSERT_TRUE((*one)->export_dmabuf(from.pool_base, 1));
  EXPECT_EQ(from.exports_alive(), 1);
  EXPECT_TRUE(is_same_file(used, from.synapses_fd.get()));
  (*one)->suspend();
  EXPECT_EQ(from.exports_alive(), 0);
  EXPECT_FALSE(is_same_file(used, from.synapses_fd.get()));
  ASSERT_TRUE((*one)->resume());
  EXPECT_EQ((*one)->fd(), used);
  EXPECT_TRUE(is_same_file(used, from.synapses_fd.get()));
  EXPECT_EQ((*one)->lost(), 0);
  EXPECT_EQ((*one)->find(from.pool_base, 1)->allocation_id, generation);
  EXPECT_TRUE((*one)->export_dmabuf(from.pool_base, 1));
}

TEST_F(borrowed, rests_once_the_last_of_its_users_has_gone) {
  device_registry all;
  const auto one = *from.attach_synapse();
  all.add(one);
  const auto is_up = [&] { return is_same_file(one->fd(), from.synapses_fd.get()); };
  {
    const device_registry::user first(all, {});
    { const device_registry::user second(all, {}); }
    EXPECT_TRUE(is_up());
  }
  EXPECT_FALSE(is_up());
  const device_registry::user next(all, {});
  EXPECT_TRUE(is_up());
}

// The application's own descriptor, under which it goes on.
TEST_F(borrowed, only_synapses_rests) {
  from.driver.bus_id = "0000:e1:00.0";
  const auto adopted = device::adopt(from.driver.thunk(), from.synapses_fd.get());
  ASSERT_TRUE(adopted);
  ASSERT_EQ((*adopted)->synapse(), nullptr);
  (*adopted)->suspend();
  ASSERT_TRUE(is_same_file((*adopted)->fd(), from.synapses_fd.get()));
  EXPECT_TRUE((*adopted)->resume());
}

// It is over with it, and what is at its number since then is not looked at.
TEST_F(borrowed, a_lost_one_neither_rests_nor_wakes) {
  from.driver.bus_id = "0000:e2:00.0";
  const auto one = from.attach_synapse();
  ASSERT_TRUE(one);
  (*one)->lose(-FI_EIO, "for a test");
  (*one)->suspend();
  from.acquired = false;
  EXPECT_FALSE((*one)->resume());
  EXPECT_EQ((*one)->lost(), -FI_EIO) << "and not that it was released";
}

TEST_F(borrowed, wakes_only_as_the_same) {
  const auto one = from.attach_synapse();
  (*one)->suspend();
  from.map_base -= 4096;
  EXPECT_FALSE((*one)->resume());
  EXPECT_NE((*one)->lost(), 0);
  EXPECT_TRUE((*one)->is_vacant());
  const auto next = from.attach_synapse();
  ASSERT_TRUE(next);
  EXPECT_NE(*next, *one);
}

TEST_F(borrowed, released_while_it_rested_is_lost) {
  const auto one = from.attach_synapse();
  (*one)->suspend();
  from.acquired = false;
  EXPECT_FALSE((*one)->resume());
  EXPECT_EQ((*one)->lost(), -FI_ENODEV);
}

TEST_F(borrowed, a_lost_one_is_followed_when_it_is_acquired_anew) {
  const auto one = from.attach_synapse();
  const auto pin = (*one)->pin(from.pool_base, 1);
  ASSERT_TRUE(pin);
  (*one)->lose(-FI_EIO, "for a test");
  EXPECT_TRUE((*one)->is_vacant()) << "nothing that its user would free";
  EXPECT_EQ((*one)->reopened_device(any).code(), -FI_EIO) << "acquired as before";
  from.acquired = false;
  EXPECT_EQ((*one)->reopened_device(any).code(), -FI_EIO) << "released";
  from.acquired = true;
  from.driver.openings = 2;
  from.driver.status = hl::device_status::in_reset;
  EXPECT_EQ((*one)->reopened_device(any).code(), -FI_EIO) << "and lost again";
  from.driver.status = hl::device_status::operational;
  const auto next = (*one)->reopened_device(any);
  ASSERT_TRUE(next);
  EXPECT_NE(*next, *one);
  EXPECT_EQ((*next)->lost(), 0);
  EXPECT_TRUE((*next)->pin(from.pool_base, 1));
  EXPECT_EQ((*one)->pin(from.pool_base, 1).code(), -FI_EIO) << "for good";
}

TEST_F(borrowed, a_lost_one_is_synapses_to_acquire_anew_and_the_warning_says_so) {
  const auto one = from.attach_synapse();
  const proto::test::logged_warnings logged;
  (*one)->lose(-FI_EIO, "for a test");
  EXPECT_THAT(logged.text(), testing::HasSubstr("synDeviceRelease"));
}

// Then by its status alone.
TEST_F(borrowed, a_lost_one_is_followed_with_a_library_that_does_not_count_openings) {
  ON_CALL(from.driver.library, get_open_stats(_, _)).WillByDefault(testing::Return(-ENOTTY));
  const auto one = from.attach_synapse();
  (*one)->lose(-FI_EIO, "for a test");
  from.driver.status = hl::device_status::needs_reset;
  EXPECT_EQ((*one)->reopened_device(any).code(), -FI_EIO);
  from.driver.status = hl::device_status::operational;
  EXPECT_TRUE((*one)->reopened_device(any));
}

// What was counted when it was borrowed first tells nothing of an acquisition during the rest.
TEST_F(borrowed, one_that_woke_is_not_its_own_successor) {
  const auto one = from.attach_synapse();
  (*one)->suspend();
  from.driver.openings = 2;
  ASSERT_TRUE((*one)->resume());
  (*one)->lose(-FI_EIO, "for a test");
  EXPECT_EQ((*one)->reopened_device(any).code(), -FI_EIO);
}

TEST_F(borrowed, is_lost_soon_after_its_driver_says_so) {
  const auto one = from.attach_synapse();
  (*one)->suspend();
  from.driver.status = hl::device_status::in_reset;
  from.driver.status = hl::device_status::operational;
  ASSERT_TRUE((*one)->resume());
  EXPECT_EQ((*one)->lost(), 0);
  from.driver.status = hl::device_status::in_reset;
  for (int slept_ms = 0; (*one)->lost() == 0 && slept_ms < 10'000; ++slept_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*one)->lost(), -FI_EIO);
}

/// The driver's word on how often a device was opened, which is the last that is asked before its
/// pool becomes known: from there on memory is scarce. Not the mock's word, as the mock takes
/// memory itself. One at a time.
class scarce_once_opened {
 public:
  scarce_once_opened() { current = this; }
  ~scarce_once_opened() { current = nullptr; }
  scarce_once_opened(const scarce_once_opened&) = delete;
  scarce_once_opened& operator=(const scarce_once_opened&) = delete;

  [[nodiscard]] static std::shared_ptr<const hl::thunk> thunk() {
    hl::functions library = test::mock_library::table();
    library.get_open_stats = &tell;
    return std::make_shared<const hl::thunk>(library, "simulated Gaudi2");
  }
  /// How often the driver is asked during this.
  template <class Attach>
  unsigned questions(Attach&& attach) {
    asked_ = 0;
    last_ = 0;
    attach();
    return asked_;
  }
  /// What this gives where its memory is scarce from the last question on.
  template <class Attach>
  auto with(long allocations, unsigned questions, Attach&& attach) {
    asked_ = 0;
    last_ = questions;
    allocations_ = allocations;
    auto attached = attach();
    scarce_.reset();
    return attached;
  }

 private:
  static int tell(int, hl::open_stats* stats) {
    stats->open_counter = 1;
    if (++current->asked_ == current->last_) current->scarce_.emplace(current->allocations_);
    return 0;
  }

  static inline scarce_once_opened* current = nullptr;
  unsigned asked_ = 0;
  unsigned last_ = 0;
  long allocations_ = 0;
  std::optional<test::scarce_memory> scarce_;
};

// Without the pool nothing of it could be used, however much else is known of the device.
TEST_F(borrowed, is_not_there_without_the_memory_to_know_its_pool) {
  from.driver.bus_id = "0000:e3:00.0";
  scarce_once_opened memory;
  const auto thunk = scarce_once_opened::thunk();
  const auto synapse = std::make_shared<const hl::synapse>(test::mock_synapse::table());
  const auto attach = [&] { return device::attach_synapse(thunk, synapse); };
  const unsigned questions = memory.questions([&] { ASSERT_TRUE(attach()); });
  ASSERT_GT(questions, 0U);
  long allocations = 0;
  auto one = memory.with(allocations, questions, attach);
  for (; !one; one = memory.with(++allocations, questions, attach))
    ASSERT_EQ(one.code(), -FI_ENOMEM) << "after " << allocations;
  EXPECT_GT(allocations, 0) << "what is known of the pool takes memory";
  EXPECT_EQ((*one)->pool().len, from.pool_len) << "after " << allocations;
  EXPECT_TRUE((*one)->find(from.pool_base, 1));
}

}  // namespace
}  // namespace gaudi::device
