// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// However a message is cut into packets and pieces, and whatever the buffers at both ends are cut
// into, each byte arrives once and in its place, and nothing around it is touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "endpoint_node.hpp"

namespace gaudi::proto::test {
namespace {

constexpr std::size_t longest = 300'000;
constexpr auto untouched = static_cast<std::byte>(0xa5);

/// A buffer that is scattered over one block of memory, with gaps.
class scattered {
 public:
  scattered(std::mt19937& random, std::size_t length) {
    const std::size_t count = 1 + random() % pieces_.size();
    std::vector<std::size_t> cuts(count + 1);
    for (std::size_t i = 1; i < count; ++i) cuts[i] = length ? random() % (length + 1) : 0;
    std::sort(cuts.begin(), cuts.end() - 1);
    cuts[count] = length;
    std::size_t at = 0;
    std::array<std::size_t, 4> starts{};
    for (std::size_t i = 0; i < count; ++i) {
      at += 1 + random() % 64;
      starts[i] = at;
      at += cuts[i + 1] - cuts[i];
    }
    block_.assign(at + 64, untouched);
    for (std::size_t i = 0; i < count; ++i)
      pieces_[i] = {block_.data() + starts[i], cuts[i + 1] - cuts[i]};
    count_ = count;
  }

  void fill(const std::vector<std::byte>& bytes) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), pieces_[i].iov_len,
                  static_cast<std::byte*>(pieces_[i].iov_base));
      at += pieces_[i].iov_len;
    }
  }
  [[nodiscard]] std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto* first = static_cast<const std::byte*>(pieces_[i].iov_base);
      bytes.insert(bytes.end(), first, first + pieces_[i].iov_len);
    }
    return bytes;
  }
  /// Bytes outside the pieces that have changed.
  [[nodiscard]] std::ptrdiff_t damage() const {
    auto rest = block_;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto offset = static_cast<const std::byte*>(pieces_[i].iov_base) - block_.data();
      std::fill_n(rest.begin() + offset, pieces_[i].iov_len, untouched);
    }
    return std::count_if(rest.begin(), rest.end(), [](std::byte b) { return b != untouched; });
  }
  [[nodiscard]] local_memory memory() const {
    return test::memory_of(std::span(pieces_).first(count_));
  }

 private:
  std::vector<std::byte> block_;
  std::array<iovec, 4> pieces_{};
  std::size_t count_ = 0;
};

/// Lengths around every limit are as likely as others.
std::size_t random_length(std::mt19937& random, const endpoint::settings& config) {
  switch (random() % 4) {
    case 0:
      return random() % 64;
    case 1:
      return config.eager_size - 2 + random() % 5;
    case 2:
      return config.staging_chunk - 2 + random() % 5;
    default:
      return random() % longest;
  }
}

endpoint::settings random_settings(std::mt19937& random) {
  endpoint::settings config = small_settings();
  config.eager_size = 64 << random() % 9;
  config.staging_chunk = 4096UL << random() % 5;
  config.staging_depth = 1 + random() % 8;
  config.rx_buffers = 8 << random() % 4;
  config.rendezvous = random() % 2 ? base::rendezvous_choice::read : base::rendezvous_choice::write;
  return config;
}

void pass_one(std::mt19937& random, live_node& a, fi_addr_t to, live_node& b,
              const endpoint::settings& config) {
  const std::size_t length = random_length(random, config);
  const auto bytes = counting(length, static_cast<unsigned>(random()));
  scattered source(random, length);
  source.fill(bytes);
  const scattered sink(random, length);
  const bool late = random() % 2;
  if (!late) {
    ASSERT_EQ(b.receive(sink.memory(), 7, number(1)), 0);
  }
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, source.memory(), 7, number(2)); }), 0);
  if (late) {
    for (int i = 0; i < 20; ++i) b.ep->progress();
    ASSERT_EQ(b.receive(sink.memory(), 7, number(1)), 0);
  }
  const cq_entry got = wait(b, {&a, &b});
  EXPECT_EQ(got.error, 0);
  EXPECT_EQ(got.length, length);
  EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  EXPECT_TRUE(sink.contents() == bytes) << length << " bytes differ";
  EXPECT_EQ(sink.damage(), 0) << "bytes around the buffer were written";
}

TEST(segmentation, keeps_every_byte_whatever_the_cuts) {
  for (unsigned seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const endpoint::settings config = random_settings(random);
    live_node a(config);
    live_node b(config);
    const fi_addr_t to = a.meet(b);
    for (int message = 0; message < 20; ++message)
      ASSERT_NO_FATAL_FAILURE(pass_one(random, a, to, b, config)) << "message " << message;
  }
}

TEST(segmentation, of_one_sided_operations_keeps_every_byte) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    endpoint::settings config = random_settings(random);
    config.provider_keys = seed % 2 == 0;
    live_node a(config);
    live_node b(config);
    const fi_addr_t to = a.meet(b);
    std::vector<std::byte> window(longest);
    reg::region region;
    // A key of the application's goes by messages, one of the core's directly.
    b.expose(region, window, config.provider_keys ? 0 : 99);
    for (int turn = 0; turn < 10; ++turn) {
      const std::size_t length = std::max<std::size_t>(1, random_length(random, config));
      const std::size_t offset = random() % (longest - length + 1);
      const auto bytes = counting(length, static_cast<unsigned>(random()));
      scattered source(random, length);
      source.fill(bytes);
      const rma_access access{.target = to,
                              .address = region.address + offset,
                              .key = region.key,
                              .delivery = true,
                              .completion = a.completion(number(1))};
      std::fill(window.begin(), window.end(), untouched);
      ASSERT_EQ(post({&a, &b}, [&] { return a.ep->write(source.memory(), access); }), 0);
      ASSERT_EQ(wait(a, {&a, &b}).error, 0);
      EXPECT_TRUE(
          std::equal(bytes.begin(), bytes.end(), window.begin() + static_cast<long>(offset)));
      EXPECT_EQ(std::count(window.begin(), window.begin() + static_cast<long>(offset), untouched),
                static_cast<long>(offset));
      const scattered sink(random, length);
      ASSERT_EQ(post({&a, &b}, [&] { return a.ep->read(sink.memory(), access); }), 0);
      ASSERT_EQ(wait(a, {&a, &b}).error, 0);
      EXPECT_TRUE(sink.contents() == bytes);
      EXPECT_EQ(sink.damage(), 0);
    }
  }
}

}  // namespace
}  // namespace gaudi::proto::test
