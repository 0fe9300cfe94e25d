// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>

#include "copy/copier.hpp"
#include "device/device.hpp"
#include "endpoint_node.hpp"
#include "hl/thunk.hpp"

namespace gaudi::proto::test {

/// Two endpoints, a simulated device with a region, and a copy engine whose room a test can take.
class device_under_load : public testing::Test {
 protected:
  static constexpr std::size_t long_message = 300'000;

  static void SetUpTestSuite() {
    folder() = (std::filesystem::temp_directory_path() / "hlsim-proto-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder().data()), nullptr);
    setenv("HLSIM_DIR", folder().c_str(), 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::string& folder() {
    static std::string name;
    return name;
  }

  device_under_load() {
    const auto library = hl::thunk::load(GAUDI_HLSIM);
    gaudi_ = *device::device::open(*library, {});
    copy::engine_config terms;
    terms.table.calibrate = false;
    engine_ = *copy::dma_engine::for_device(gaudi_, terms);
    region_.length = long_message;
    region_.address = *gaudi_->allocate(region_.length);
    region_.owner = gaudi_.get();
    region_.virtual_address = true;
    elsewhere_ = *gaudi_->allocate(8192);
  }
  ~device_under_load() override {
    empty();
    a_.ep.reset();  // which may still copy
    b_.ep.reset();
    const bool is_lost = gaudi_->lost() != 0;
    EXPECT_TRUE(is_lost || gaudi_->free(region_.address));
    EXPECT_TRUE(is_lost || gaudi_->free(elsewhere_));
  }

  /// As an endpoint that nobody progresses.
  void fill() {
    for (;;) {
      const auto one =
          engine_->submit(elsewhere_, elsewhere_ + 4096, 4096, copy::direction::device_to_device);
      if (!one) {
        EXPECT_EQ(one.code(), -FI_EAGAIN);
        return;
      }
      taken_.push_back(*one);
    }
  }
  void empty() {
    for (const copy::ticket one : taken_) EXPECT_EQ(engine_->wait(one, -1), gaudi_->lost());
    taken_.clear();
  }

  local_memory on_device(std::size_t length) {
    return local_memory::inside(region_, region_.address, length);
  }

  /// Some rounds of progress, in which nothing ends.
  void nothing_ends() {
    for (int i = 0; i < 1000; ++i) {
      a_.ep->progress();
      b_.ep->progress();
    }
    EXPECT_TRUE(b_.queue.empty());
  }

  std::shared_ptr<device::device> gaudi_;
  std::shared_ptr<copy::dma_engine> engine_;
  reg::region region_;
  std::uint64_t elsewhere_ = 0;
  std::vector<copy::ticket> taken_;
  live_node a_, b_;
};

}  // namespace gaudi::proto::test
