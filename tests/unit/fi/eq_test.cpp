// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/eq.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/fi_errno.h>

#include <thread>
#include <vector>

#include "core/fid.hpp"
#include "fi/common/tables.hpp"

namespace {

using gaudi::core::unique_fid;
using gaudi::fi::child_count;
using gaudi::fi::event_queue;

class event_queues : public testing::Test {
 protected:
  unique_fid<fid_eq> open(fi_wait_obj wait, std::size_t size = 8, std::uint64_t flags = FI_WRITE) {
    fi_eq_attr attr{
        .size = size, .flags = flags, .wait_obj = wait, .signaling_vector = 0, .wait_set = nullptr};
    fid_eq* eq = nullptr;
    EXPECT_EQ(event_queue::open(parent_, &attr, &eq, this), 0);
    return unique_fid<fid_eq>(eq);
  }

  static ssize_t write(fid_eq* eq, std::uint64_t data) {
    const fi_eq_entry entry{.fid = &eq->fid, .context = nullptr, .data = data};
    return fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0);
  }

  static bool readable(fid_eq* eq) {
    pollfd pfd{.fd = -1, .events = POLLIN, .revents = 0};
    EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &pfd.fd), 0);
    return poll(&pfd, 1, 0) == 1;
  }

  child_count parent_;
  std::uint32_t event_ = 77;
  fi_eq_entry entry_{};
};

TEST_F(event_queues, report_events_in_order) {
  const auto eq = open(FI_WAIT_NONE);
  EXPECT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), -FI_EAGAIN);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(write(eq.get(), i), ssize_t{sizeof(entry_)});
  for (std::uint64_t i = 0; i < 5; ++i) {
    for (const std::uint64_t flags : {FI_PEEK, 0ULL}) {
      ASSERT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), flags),
                ssize_t{sizeof(entry_)});
      EXPECT_EQ(event_, std::uint32_t{FI_NOTIFY});
      EXPECT_EQ(entry_.data, i);
    }
  }
  EXPECT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), -FI_EAGAIN);
}

TEST_F(event_queues, keep_an_event_that_does_not_fit_the_buffer) {
  const auto eq = open(FI_WAIT_NONE);
  ASSERT_GT(write(eq.get(), 3), 0);
  EXPECT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_) - 1, 0), -FI_ETOOSMALL);
  EXPECT_GT(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), 0);
}

TEST_F(event_queues, report_errors_apart) {
  const auto eq = open(FI_WAIT_FD);
  fi_eq_err_entry error{};
  error.context = this;
  error.data = 4;
  error.err = FI_EADDRNOTAVAIL;
  event_queue::reserved_events one(1);
  ASSERT_EQ(event_queue::of(eq.get()).post_error(error, one), 0);
  EXPECT_TRUE(readable(eq.get()));
  EXPECT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), -FI_EAVAIL);
  fi_eq_err_entry seen{};
  EXPECT_EQ(fi_eq_readerr(eq.get(), &seen, FI_PEEK), ssize_t{sizeof(seen)});
  EXPECT_EQ(fi_eq_readerr(eq.get(), &seen, 0), ssize_t{sizeof(seen)});
  EXPECT_EQ(seen.err, FI_EADDRNOTAVAIL);
  EXPECT_EQ(seen.data, 4U);
  EXPECT_EQ(seen.context, this);
  EXPECT_EQ(fi_eq_readerr(eq.get(), &seen, 0), -FI_EAGAIN);
  EXPECT_FALSE(readable(eq.get()));
}

TEST_F(event_queues, stay_overrun_after_one_event_too_many) {
  const auto eq = open(FI_WAIT_FD, 4);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_GT(write(eq.get(), i), 0);
  EXPECT_EQ(write(eq.get(), 4), -FI_EOVERRUN);
  EXPECT_EQ(write(eq.get(), 5), -FI_EOVERRUN);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_GT(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), 0);
    EXPECT_EQ(entry_.data, i);
  }
  for (int i = 0; i < 2; ++i) {
    fi_eq_err_entry seen{};
    EXPECT_EQ(fi_eq_read(eq.get(), &event_, &entry_, sizeof(entry_), 0), -FI_EAVAIL);
    EXPECT_GT(fi_eq_readerr(eq.get(), &seen, 0), 0);
    EXPECT_EQ(seen.err, FI_EOVERRUN);
    EXPECT_TRUE(readable(eq.get()));
  }
  EXPECT_EQ(write(eq.get(), 6), -FI_EOVERRUN);
}

TEST_F(event_queues, take_user_events_only_when_opened_for_them) {
  const auto eq = open(FI_WAIT_NONE, 4, 0);
  EXPECT_EQ(write(eq.get(), 0), -FI_EINVAL);
}

TEST_F(event_queues, signal_their_descriptor_while_not_empty) {
  const auto eq = open(FI_WAIT_FD);
  fid* fid = &eq->fid;
  EXPECT_FALSE(readable(eq.get()));
  EXPECT_EQ(fi_control(fid, gaudi::fi::control_try_wait, nullptr), 0);
  ASSERT_GT(write(eq.get(), 0), 0);
  ASSERT_GT(write(eq.get(), 1), 0);
  EXPECT_EQ(fi_control(fid, gaudi::fi::control_try_wait, nullptr), -FI_EAGAIN);
  EXPECT_GT(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, FI_PEEK), 0);
  EXPECT_TRUE(readable(eq.get()));
  EXPECT_GT(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, 0), 0);
  EXPECT_TRUE(readable(eq.get()));
  EXPECT_GT(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, 0), 0);
  EXPECT_FALSE(readable(eq.get()));
}

TEST_F(event_queues, wait_for_an_event_or_the_time_out) {
  const auto eq = open(FI_WAIT_UNSPEC);
  EXPECT_EQ(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), 1, 0), -FI_EAGAIN);
  std::thread writer([&] { write(eq.get(), 9); });
  EXPECT_GT(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, 0), 0);
  EXPECT_EQ(entry_.data, 9U);
  writer.join();
}

TEST_F(event_queues, do_not_wait_without_a_wait_object) {
  const auto eq = open(FI_WAIT_NONE);
  EXPECT_EQ(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, 0), -FI_EINVAL);
  int fd = -1;
  EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
}

TEST_F(event_queues, refuse_wait_objects_that_are_not_offered) {
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  fid_eq* eq = nullptr;
  EXPECT_EQ(event_queue::open(parent_, &attr, &eq, nullptr), -FI_ENOSYS);
  EXPECT_FALSE(parent_.any());
}

TEST_F(event_queues, stay_open_while_something_is_bound) {
  auto eq = open(FI_WAIT_NONE);
  EXPECT_TRUE(parent_.any());
  {
    const child_count::ref bound(event_queue::of(eq.get()).bound());
    EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
  }
  EXPECT_EQ(fi_close(&eq.release()->fid), 0);
  EXPECT_FALSE(parent_.any());
}

TEST_F(event_queues, lose_nothing_between_threads) {
  constexpr std::uint64_t per_writer = 2000;
  const auto eq = open(FI_WAIT_UNSPEC, 2 * per_writer);
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&] {
      for (std::uint64_t i = 1; i <= per_writer; ++i) ASSERT_GT(write(eq.get(), i), 0);
    });
  }
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 2 * per_writer; ++i) {
    ASSERT_GT(fi_eq_sread(eq.get(), &event_, &entry_, sizeof(entry_), -1, 0), 0);
    sum += entry_.data;
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(sum, per_writer * (per_writer + 1));
}

TEST_F(event_queues, name_errors) {
  const auto eq = open(FI_WAIT_NONE);
  char text[8];
  EXPECT_STREQ(fi_eq_strerror(eq.get(), FI_EOVERRUN, nullptr, nullptr, 0),
               fi_strerror(FI_EOVERRUN));
  EXPECT_EQ(std::string(fi_eq_strerror(eq.get(), FI_EOVERRUN, nullptr, text, sizeof(text))),
            std::string(fi_strerror(FI_EOVERRUN)).substr(0, sizeof(text) - 1));
}

}  // namespace
