// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An application that has opened its Gaudi itself, with libhl-thunk, and tells nobody.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "faults.hpp"
#include "passing.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

const node_options with_device{.device = true};

/// The functions of libhl-thunk that the application of this test calls.
class application {
 public:
  application() : library_(dlopen(std::getenv("FI_GAUDI_HLTHUNK"), RTLD_NOW)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }

  int open(const char* bus_id) {
    return static_cast<int>(
        must(call<int(int, const char*)>("hlthunk_open")(4, bus_id), "opening"));
  }
  int open_control(int index) {
    return call<int(int, const char*)>("hlthunk_open_control")(index, nullptr);
  }
  std::uint64_t allocate_and_map(int fd, std::uint64_t size) {
    using allocate = std::uint64_t(int, std::uint64_t, std::uint64_t, bool, bool);
    const auto handle = call<allocate>("hlthunk_device_memory_alloc")(fd, size, 0, true, false);
    return call<std::uint64_t(int, std::uint64_t, std::uint64_t)>("hlthunk_device_memory_map")(
        fd, handle, 0);
  }
  bool is_usable(int fd) {
    return call<int(int)>("hlthunk_get_device_status_info")(fd) == 0 && fcntl(fd, F_GETFD) >= 0;
  }
  int unmap(int fd, std::uint64_t address) {
    return call<int(int, std::uint64_t)>("hlthunk_memory_unmap")(fd, address);
  }
  void close(int fd) { call<int(int)>("hlthunk_close")(fd); }

 private:
  template <class Function>
  Function* call(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_;
};

fi_gaudi_device_attr device_of(const node& n) {
  fi_gaudi_device_attr attr{};
  must(n.ops().query_device(n.domain(), &attr), "query_device");
  return attr;
}

class guest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

TEST_F(guest, of_the_device_that_the_application_has_open) {
  for (const char* const named : {"", "1"}) {
    run({.ranks = 1, .environment = {{"FI_GAUDI_DEVICE", named}}}, [](rank&) {
      application app;
      const int fd = app.open("0000:1a:00.0");
      const std::uint64_t apps = app.allocate_and_map(fd, 4096);
      {
        node n(with_device);
        const auto attr = device_of(n);
        EXPECT_STREQ("0000:1a:00.0", attr.pci_addr);
        EXPECT_EQ(0, attr.owned);
        memory own(n, 10'000, true);
        own.put(5, bytes_of(1, 1000));
        expect_same(bytes_of(1, 1000), own.get(5, 1000), "memory of the provider's");

        fi_gaudi_addr_attr where{};
        EXPECT_EQ(-FI_ENOENT, n.ops().query_addr(n.domain(), apps, 1, &where))
            << "nobody told of that";
        const fi_gaudi_range range{apps + 64, 2000, apps, 768ULL << 20};
        must(n.ops().adopt_range(n.domain(), &range), "adopt_range");
        must(n.ops().query_addr(n.domain(), apps + 64, 2000, &where), "query_addr");
        EXPECT_EQ(1, where.adopted);
        const bytes in = bytes_of(2, 2000);
        bytes out(2000);
        const auto at = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
        EXPECT_EQ(
            0, n.ops().copy(n.domain(), apps + 64, at(in.data()), 2000, FI_GAUDI_HOST_TO_DEVICE));
        EXPECT_EQ(
            0, n.ops().copy(n.domain(), at(out.data()), apps + 64, 2000, FI_GAUDI_DEVICE_TO_HOST));
        expect_same(in, out, "memory of the application's");
        must(n.ops().release_range(n.domain(), apps + 64), "release_range");
      }
      EXPECT_TRUE(app.is_usable(fd)) << "it is the application's to close";
      EXPECT_EQ(0, app.unmap(fd, apps));
      app.close(fd);
    });
  }
}

TEST_F(guest, of_no_other_device_than_the_one_that_is_named) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_DEVICE", "2"}}}, [](rank&) {
    application app;
    const int fd = app.open("0000:19:00.0");
    node n(with_device);
    const auto attr = device_of(n);
    EXPECT_STREQ("0000:1b:00.0", attr.pci_addr);
    EXPECT_EQ(1, attr.owned);
    EXPECT_TRUE(app.is_usable(fd));
  });
}

TEST_F(guest, of_no_device_that_the_application_only_looks_at) {
  run({.ranks = 1}, [](rank&) {
    application app;
    ASSERT_GE(app.open_control(0), 0);
    node n(with_device);
    const auto attr = device_of(n);
    EXPECT_STREQ("0000:19:00.0", attr.pci_addr);
    EXPECT_EQ(1, attr.owned);
  });
}

TEST_F(guest, exchanges_messages_with_a_peer_that_opened_its_own) {
  run({}, [](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    application app;
    if (r.id() == 0) app.open("0000:19:00.0");
    node n(with_device);
    n.meet(r);
    EXPECT_EQ(r.id(), device_of(n).owned);
    constexpr std::size_t size = 300'000;
    memory own(n, size, true);
    if (r.id() == 0) own.put(0, bytes_of(3, size));
    EXPECT_EQ(0, pass(n, r, own, size, 1).err);
    expect_same(bytes_of(3, size), own.get(0, size), "at both ends");
    r.barrier();
  });
}

// Libfabric 1.17's tcp leaks a connection of an endpoint with itself that is half made when it
// closes.
void greet_itself(node& n) {
  memory own(n, 64, false);
  n.post([&] { return fi_trecv(n.ep(), own.at(0), 64, own.desc(), FI_ADDR_UNSPEC, 9, 0, ctx(8)); });
  n.post([&] { return fi_tsend(n.ep(), own.at(0), 64, own.desc(), n.peer(0), 9, ctx(9)); });
  EXPECT_EQ(0, n.wait(ctx(8)).err);
  EXPECT_EQ(0, n.wait(ctx(9)).err);
}

// Whether it was found or handed over.
TEST_F(guest, of_a_device_that_the_application_opens_anew_after_a_reset) {
  for (const bool is_handed_over : {false, true}) {
    run({.ranks = 1, .environment = {{"HLSIM_DEVICES", "1"}}}, [is_handed_over](rank& r) {
      application app;
      const int lost = app.open(nullptr);
      node n(with_device);
      n.meet(r);
      if (is_handed_over) must(n.ops().adopt_device(n.domain(), lost), "adopt_device");
      greet_itself(n);
      std::uint64_t address = 0;
      {
        memory own(n, 4096, true);
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), 4096, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
        strike("reset-after-ms=1");
        EXPECT_EQ(FI_EIO, n.wait(ctx(1)).err) << "the notifier is the application's";
        mend();
        EXPECT_EQ(-FI_EIO, n.ops().alloc(n.domain(), 4096, &address));
        EXPECT_GT(0, fi_tsend(n.ep(), own.at(0), 64, own.desc(), n.peer(0), 2, ctx(2)));
      }
      EXPECT_EQ(-FI_EIO, n.ops().alloc(n.domain(), 4096, &address)) << "the application has it";
      app.close(lost);
      EXPECT_EQ(-FI_EIO, n.ops().alloc(n.domain(), 4096, &address)) << "and it alone opens it";
      app.open(nullptr);
      memory own(n, 4096, true);
      EXPECT_EQ(0, device_of(n).owned);
      own.put(0, bytes_of(4, 4096));
      expect_same(bytes_of(4, 4096), own.get(0, 4096), "memory of the one opened anew");
    });
  }
}

// Both are in one process: what the provider has opened itself is not the application's.
TEST_F(guest, of_nobody_where_the_provider_has_opened_all) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_DEVICE", "all"}, {"HLSIM_DEVICES", "2"}}}, [](rank&) {
    node n(with_device);
    for (const int number : {0, 1}) {
      must(n.ops().select_device(n.domain(), number), "select_device");
      EXPECT_EQ(1, device_of(n).owned);
      EXPECT_EQ(number, device_of(n).index);
    }
  });
}

}  // namespace
}  // namespace gaudi::test
