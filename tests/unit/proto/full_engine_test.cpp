// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Transfers of device memory while somebody else has filled the device's copy engine: they wait,
// and lose nothing.
#include <filesystem>

#include "copy/copier.hpp"
#include "device/device.hpp"
#include "endpoint_node.hpp"
#include "hl/thunk.hpp"

namespace gaudi::proto {
namespace {

using copy::direction;
using test::counting;
using test::live_node;
using test::memory_of;
using test::number;

class full_engine : public testing::Test {
 protected:
  static constexpr std::size_t long_message = 300'000;

  static void SetUpTestSuite() {
    folder() = (std::filesystem::temp_directory_path() / "hlsim-full-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder().data()), nullptr);
    setenv("HLSIM_DIR", folder().c_str(), 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::string& folder() {
    static std::string name;
    return name;
  }

  full_engine() {
    const auto library = hl::thunk::load(GAUDI_HLSIM);
    gaudi_ = *device::device::open(*library, {});
    copy::engine_terms terms;
    terms.table.calibrate = false;
    engine_ = *copy::dma_engine::for_device(gaudi_, terms);
    region_.length = long_message;
    region_.address = *gaudi_->allocate(region_.length);
    region_.owner = gaudi_.get();
    region_.virtual_address = true;
    elsewhere_ = *gaudi_->allocate(8192);
  }
  ~full_engine() override {
    empty();
    a_.ep.reset();  // which may still copy
    b_.ep.reset();
    EXPECT_TRUE(gaudi_->free(region_.address));
    EXPECT_TRUE(gaudi_->free(elsewhere_));
  }

  /// As an endpoint that nobody progresses.
  void fill() {
    for (;;) {
      const auto one =
          engine_->submit(elsewhere_, elsewhere_ + 4096, 4096, direction::device_to_device);
      if (!one) {
        EXPECT_EQ(one.code(), -FI_EAGAIN);
        return;
      }
      taken_.push_back(*one);
    }
  }
  void empty() {
    for (const copy::ticket one : taken_) EXPECT_EQ(engine_->wait(one, -1), 0);
    taken_.clear();
  }

  local_memory on_device(std::size_t length) {
    return local_memory::inside(region_, region_.address, length);
  }
  void put(const std::vector<std::byte>& bytes) { copy(bytes.data(), bytes.size(), true); }
  std::vector<std::byte> get(std::size_t length) {
    std::vector<std::byte> bytes(length);
    copy(bytes.data(), length, false);
    return bytes;
  }
  void copy(const void* host, std::size_t length, bool to_device) {
    const auto at = reinterpret_cast<std::uint64_t>(host);
    const auto rc =
        copy::copy_sync(gaudi_, to_device ? region_.address : at, to_device ? at : region_.address,
                        length, to_device ? direction::host_to_device : direction::device_to_host);
    EXPECT_EQ(rc.code(), 0);
  }

  /// Some rounds of progress, in which nothing ends.
  void nothing_ends() {
    for (int i = 0; i < 1000; ++i) {
      a_.ep->progress();
      b_.ep->progress();
    }
    EXPECT_TRUE(b_.queue.empty());
  }

  void receive_while_full(std::size_t length) {
    const fi_addr_t to = a_.meet(b_);
    test::pass(a_, to, b_, 10, 1);
    const auto sent = counting(length, 7);
    put(std::vector<std::byte>(length));
    fill();
    ASSERT_EQ(b_.receive(on_device(length), 2, number(2)), 0);
    auto bytes = sent;
    ASSERT_EQ(
        test::post({&a_, &b_},
                   [&] { return a_.send(to, memory_of(bytes.data(), length), 2, number(3)); }),
        0);
    nothing_ends();
    empty();
    EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
    EXPECT_EQ(get(length), sent);
  }

  std::shared_ptr<device::device> gaudi_;
  std::shared_ptr<copy::dma_engine> engine_;
  reg::region region_;
  std::uint64_t elsewhere_ = 0;
  std::vector<copy::ticket> taken_;
  live_node a_, b_;
};

TEST_F(full_engine, does_not_lose_a_short_message) {
  receive_while_full(3000);
}

TEST_F(full_engine, does_not_lose_a_long_message) {
  receive_while_full(long_message);
}

TEST_F(full_engine, delays_a_send) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(3000, 8);
  put(sent);
  fill();
  std::vector<std::byte> got(3000);
  ASSERT_EQ(b_.receive(memory_of(got.data(), got.size()), 2, number(2)), 0);
  ASSERT_EQ(test::post({&a_, &b_}, [&] { return a_.send(to, on_device(3000), 2, number(3)); }), 0);
  nothing_ends();
  empty();
  EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
  EXPECT_EQ(got, sent);
}

// The buffer is the application's again at once.
TEST_F(full_engine, has_room_for_an_injected_message) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(100, 9);
  put(sent);
  fill();
  std::vector<std::byte> got(100);
  ASSERT_EQ(b_.receive(memory_of(got.data(), got.size()), 2, number(2)), 0);
  ASSERT_EQ(
      a_.ep->send(on_device(100),
                  {.to = to, .tag = 2, .wire_flags = wire::tagged, .inject = true, .asked = {}}),
      0);
  EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
  EXPECT_EQ(got, sent);
}

// What waits for room must not touch memory whose region is closed.
TEST_F(full_engine, keeps_a_region_until_its_copies_have_ended) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(3000, 10);
  fill();
  ASSERT_EQ(b_.receive(on_device(3000), 2, number(2)), 0);
  auto bytes = sent;
  ASSERT_EQ(test::post({&a_, &b_},
                       [&] { return a_.send(to, memory_of(bytes.data(), 3000), 2, number(3)); }),
            0);
  nothing_ends();
  b_.ep->let_go_of(region_);
  const auto after = counting(3000, 11);
  put(after);
  empty();
  for (int i = 0; i < 1000; ++i) b_.ep->progress();
  EXPECT_EQ(get(3000), after);
}

}  // namespace
}  // namespace gaudi::proto
