// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is missing or wrong gives an error code, never a crash or a hang.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "node.hpp"

namespace gaudi::test {
namespace {

class bad_input : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "tests what gaudi says";
  }
};

// libfabric loads the provider once in a process, so each question is asked in a process of its
// own.
void expect_getinfo(
    int expected, const std::vector<std::pair<std::string, std::string>>& environment,
    const node_options& options, const std::function<void(fi_info&)>& change = [](fi_info&) {}) {
  run({.ranks = 1, .environment = environment}, [&](rank&) {
    const info_ptr hints = hints_for(options);
    change(*hints);
    fi_info* list = nullptr;
    EXPECT_EQ(expected, fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &list))
        << fi_strerror(-expected) << " was expected";
    const info_ptr owner(list);
  });
}

const node_options with_device{.device = true};

TEST_F(bad_input, hmem_without_a_device_library) {
  expect_getinfo(-FI_ENODATA, {{"FI_GAUDI_HLTHUNK", "/nonexistent/libhl-thunk.so"}}, with_device);
}

TEST_F(bad_input, host_memory_works_without_a_device_library) {
  expect_getinfo(0, {{"FI_GAUDI_HLTHUNK", "/nonexistent/libhl-thunk.so"}}, {});
}

TEST_F(bad_input, hmem_without_a_device) {
  expect_getinfo(-FI_ENODATA, {{"HLSIM_DEVICES", "0"}}, with_device);
}

TEST_F(bad_input, parameters_that_do_not_parse) {
  // libfabric turns whatever a provider answers into "no data"; the reason is in the log.
  expect_getinfo(-FI_ENODATA, {{"FI_GAUDI_EAGER_SIZE", "many"}}, {});
  expect_getinfo(-FI_ENODATA, {{"FI_GAUDI_CORE", "carrier-pigeon"}}, {});
}

TEST_F(bad_input, hints_that_cannot_be_met) {
  expect_getinfo(-FI_ENODATA, {}, {}, [](fi_info& h) { h.ep_attr->type = FI_EP_DGRAM; });
  expect_getinfo(-FI_ENODATA, {}, {}, [](fi_info& h) { h.caps |= FI_NAMED_RX_CTX; });
  expect_getinfo(-FI_ENODATA, {}, {}, [](fi_info& h) { h.tx_attr->inject_size = 1U << 30; });
  expect_getinfo(-FI_ENODATA, {}, {}, [](fi_info& h) { h.addr_format = FI_ADDR_PSMX2; });
}

TEST_F(bad_input, unknown_address_is_refused) {
  run({.ranks = 1}, [](rank&) {
    node n;
    const char* nothing = "not an address at all, but long enough";
    fi_addr_t address = 1;
    EXPECT_EQ(0, fi_av_insert(n.av(), nothing, 1, &address, 0, nullptr));
    EXPECT_EQ(FI_ADDR_NOTAVAIL, address);
  });
}

// Each number of descriptors up to what is needed: an error code or success, nothing else.
TEST_F(bad_input, too_few_descriptors) {
  for (rlim_t limit = 4; limit <= 40; limit += 3)
    run({.ranks = 1}, [limit](rank&) {
      rlimit before{};
      getrlimit(RLIMIT_NOFILE, &before);
      const rlimit few{limit, before.rlim_max};
      setrlimit(RLIMIT_NOFILE, &few);
      try {
        node n;
        EXPECT_FALSE(n.name().empty());
      } catch (const std::runtime_error&) {
        // Refused with a code: that is what is asked for.
      }
      // The leak check at the end needs some, too.
      setrlimit(RLIMIT_NOFILE, &before);
    });
}

TEST_F(bad_input, device_that_does_not_exist) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_DEVICE", "77"}}}, [](rank&) {
    try {
      node n(with_device);
      std::uint64_t address = 0;
      EXPECT_EQ(-FI_ENODEV, n.ops().alloc(n.domain(), 4096, &address));
    } catch (const std::runtime_error& error) {
      const bool named = std::strstr(error.what(), fi_strerror(FI_ENODEV)) != nullptr ||
                         std::strstr(error.what(), fi_strerror(FI_ENODATA)) != nullptr;
      EXPECT_TRUE(named) << error.what();
    }
  });
}

}  // namespace
}  // namespace gaudi::test
