// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/cq.hpp"

#include <cstring>
#include <thread>
#include <vector>

#include "opened.hpp"

namespace gaudi::fi {
namespace {

int contexts[4];

proto::cq_entry entry(int i) {
  return {.context = &contexts[i],
          .flags = FI_RECV | FI_TAGGED,
          .length = 100U + static_cast<unsigned>(i),
          .buffer = nullptr,
          .data = 200U + static_cast<unsigned>(i),
          .tag = 300U + static_cast<unsigned>(i),
          .source = 400U + static_cast<unsigned>(i)};
}

void push_to(fid_cq* queue, const proto::cq_entry& c) {
  cq& own = cq::of(queue);
  const base::scoped_domain_lock lock(own.parent().lock());
  own.entries().push(c);
}

class completion_queues : public testing::Test {
 protected:
  core::unique_fid<fid_cq> open(fi_cq_format format) { return o_.open_cq(format); }
  static void push(fid_cq* queue, const proto::cq_entry& c) { push_to(queue, c); }

  test::opened o_;
};

// Reads two entries of three into a buffer with a guard behind, and checks each in its place.
template <class Entry>
void reads(fid_cq* queue, void (*check)(const Entry&, int)) {
  for (int i = 0; i < 3; ++i) push_to(queue, entry(i));
  std::vector<std::byte> buffer(3 * sizeof(Entry), std::byte{0xEE});
  fi_addr_t sources[3] = {1, 2, 3};
  ASSERT_EQ(fi_cq_readfrom(queue, buffer.data(), 2, sources), 2);
  for (int i = 0; i < 2; ++i) {
    Entry got;
    std::memcpy(&got, buffer.data() + static_cast<std::size_t>(i) * sizeof(Entry), sizeof got);
    EXPECT_EQ(got.op_context, &contexts[i]);
    check(got, i);
    EXPECT_EQ(sources[i], 400U + static_cast<unsigned>(i));
  }
  for (std::size_t i = 2 * sizeof(Entry); i < buffer.size(); ++i)
    ASSERT_EQ(buffer[i], std::byte{0xEE}) << "byte " << i << " is not the queue's to write";
  EXPECT_EQ(sources[2], 3U);
  ASSERT_EQ(fi_cq_read(queue, buffer.data(), 3), 1);
  Entry last;
  std::memcpy(&last, buffer.data(), sizeof last);
  check(last, 2);
  EXPECT_EQ(fi_cq_read(queue, buffer.data(), 3), -FI_EAGAIN);
}

TEST_F(completion_queues, write_each_format_at_its_stride) {
  reads<fi_cq_entry>(open(FI_CQ_FORMAT_CONTEXT).get(), [](const fi_cq_entry&, int) {});
  reads<fi_cq_msg_entry>(open(FI_CQ_FORMAT_MSG).get(), [](const fi_cq_msg_entry& e, int i) {
    EXPECT_EQ(e.flags, FI_RECV | FI_TAGGED);
    EXPECT_EQ(e.len, 100U + static_cast<unsigned>(i));
  });
  reads<fi_cq_data_entry>(open(FI_CQ_FORMAT_DATA).get(), [](const fi_cq_data_entry& e, int i) {
    EXPECT_EQ(e.len, 100U + static_cast<unsigned>(i));
    EXPECT_EQ(e.data, 200U + static_cast<unsigned>(i));
  });
  reads<fi_cq_tagged_entry>(open(FI_CQ_FORMAT_TAGGED).get(),
                            [](const fi_cq_tagged_entry& e, int i) {
                              EXPECT_EQ(e.data, 200U + static_cast<unsigned>(i));
                              EXPECT_EQ(e.tag, 300U + static_cast<unsigned>(i));
                            });
}

TEST_F(completion_queues, name_the_format_that_an_unspecified_one_becomes) {
  fi_cq_attr attr{};
  fid_cq* queue = nullptr;
  ASSERT_EQ(fi_cq_open(o_.domain.get(), &attr, &queue, nullptr), 0);
  const core::unique_fid<fid_cq> owner(queue);
  EXPECT_EQ(attr.format, FI_CQ_FORMAT_CONTEXT);
}

TEST_F(completion_queues, refuse_what_they_do_not_offer) {
  fid_cq* queue = nullptr;
  fi_cq_attr attr{};
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  EXPECT_EQ(fi_cq_open(o_.domain.get(), &attr, &queue, nullptr), -FI_ENOSYS);
  attr.wait_obj = FI_WAIT_NONE;
  attr.format = static_cast<fi_cq_format>(FI_CQ_FORMAT_TAGGED + 1);
  EXPECT_EQ(fi_cq_open(o_.domain.get(), &attr, &queue, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_cq_open(o_.domain.get(), nullptr, &queue, nullptr), -FI_EINVAL);
}

TEST_F(completion_queues, stop_before_an_error_until_it_is_read) {
  const auto queue = open(FI_CQ_FORMAT_CONTEXT);
  fi_cq_err_entry error{};
  EXPECT_EQ(fi_cq_readerr(queue.get(), &error, 0), -FI_EAGAIN);
  push(queue.get(), entry(0));
  proto::cq_entry failed = entry(1);
  failed.error = FI_ETRUNC;
  failed.truncated_bytes = 7;
  push(queue.get(), failed);
  push(queue.get(), entry(2));
  fi_cq_entry got[3]{};
  EXPECT_EQ(fi_cq_readerr(queue.get(), &error, 0), -FI_EAGAIN) << "a success is in front";
  EXPECT_EQ(fi_cq_read(queue.get(), got, 3), 1);
  EXPECT_EQ(fi_cq_read(queue.get(), got, 3), -FI_EAVAIL);
  EXPECT_EQ(fi_cq_sread(queue.get(), got, 3, nullptr, -1), -FI_EAVAIL);
  ASSERT_EQ(fi_cq_readerr(queue.get(), &error, 0), 1);
  EXPECT_EQ(error.op_context, &contexts[1]);
  EXPECT_EQ(error.err, FI_ETRUNC);
  EXPECT_EQ(error.olen, 7U);
  EXPECT_EQ(error.len, 101U);
  EXPECT_EQ(error.data, 201U);
  EXPECT_EQ(error.tag, 301U);
  EXPECT_EQ(error.flags, FI_RECV | FI_TAGGED);
  EXPECT_EQ(error.err_data_size, 0U);
  EXPECT_EQ(fi_cq_read(queue.get(), got, 3), 1);
  EXPECT_EQ(got[0].op_context, &contexts[2]);
}

// fi_cq_err_entry grew in 1.20: an application that was built before has no room for src_addr.
TEST_F(completion_queues, write_as_much_of_an_error_as_the_application_knows) {
  for (const bool newer : {false, true}) {
    const test::opened o(test::direct_mode, newer ? FI_VERSION(1, 20) : FI_VERSION(1, 19));
    const auto queue = o.open_cq(FI_CQ_FORMAT_CONTEXT);
    proto::cq_entry failed = entry(1);
    failed.error = FI_EIO;
    push(queue.get(), failed);
    alignas(8) unsigned char space[120];
    std::memset(space, 0xEE, sizeof space);
    // Not fi_cq_readerr(): that of 1.20 and later writes to src_addr itself.
    ASSERT_EQ(queue->ops->readerr(queue.get(), reinterpret_cast<fi_cq_err_entry*>(space), 0), 1);
    fi_addr_t source = 0;
    std::memcpy(&source, space + 80, sizeof source);
    EXPECT_EQ(source, newer ? 401U : 0xEEEEEEEEEEEEEEEEU);
    for (std::size_t i = 88; i < sizeof space; ++i) ASSERT_EQ(space[i], 0xEE);
  }
}

TEST_F(completion_queues, hold_more_than_they_were_made_for) {
  fi_cq_attr attr{};
  attr.size = 2;
  attr.format = FI_CQ_FORMAT_MSG;
  fid_cq* opened_queue = nullptr;
  ASSERT_EQ(fi_cq_open(o_.domain.get(), &attr, &opened_queue, nullptr), 0);
  const core::unique_fid<fid_cq> queue(opened_queue);
  for (unsigned i = 0; i < 1000; ++i) push(queue.get(), {.length = i});
  for (unsigned i = 0; i < 1000; ++i) {
    fi_cq_msg_entry got{};
    ASSERT_EQ(fi_cq_read(queue.get(), &got, 1), 1);
    ASSERT_EQ(got.len, i);
  }
}

TEST_F(completion_queues, wait_until_the_time_is_over_or_somebody_signals) {
  const auto queue = open(FI_CQ_FORMAT_CONTEXT);
  fi_cq_entry got{};
  EXPECT_EQ(fi_cq_sread(queue.get(), &got, 1, nullptr, 0), -FI_EAGAIN);
  EXPECT_EQ(fi_cq_sread(queue.get(), &got, 1, nullptr, 5), -FI_EAGAIN);
  ssize_t ret = 0;
  std::thread waiter([&] {
    fi_cq_entry mine{};
    ret = fi_cq_sread(queue.get(), &mine, 1, nullptr, -1);
  });
  fi_cq_signal(queue.get());
  waiter.join();
  EXPECT_EQ(ret, -FI_EAGAIN);
  push(queue.get(), entry(0));
  EXPECT_EQ(fi_cq_sread(queue.get(), &got, 1, nullptr, -1), 1);
}

TEST_F(completion_queues, say_in_words_what_failed) {
  const auto queue = open(FI_CQ_FORMAT_CONTEXT);
  char text[8];
  const char* whole = fi_cq_strerror(queue.get(), FI_ETRUNC, nullptr, text, sizeof text);
  EXPECT_STREQ(whole, fi_strerror(FI_ETRUNC));
  EXPECT_EQ(std::string(text), std::string(whole).substr(0, 7));
}

}  // namespace
}  // namespace gaudi::fi
