// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A property of registrations on every generation: what a NIC writes by a region's registration is
// in the memory that the region names, and nowhere else.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../device/fake_driver.hpp"
#include "descriptors.hpp"
#include "fake_nic.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/key_table.hpp"
#include "reg/region.hpp"

namespace gaudi::reg {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned registrations = 5000;
#else
constexpr unsigned registrations = 100'000;
#endif

struct generation {
  const char* name;
  std::uint32_t pci_id;
  std::uint64_t dram_base;
  std::uint64_t page;
  std::uint64_t window = 0;  // bytes
};

std::ostream& operator<<(std::ostream& out, const generation& g) {
  return out << g.name;
}

// Small pages in the relations of the true ones, so that allocations fall on all their borders.
constexpr std::array generations{
    generation{"Gaudi1", 0x1000, 0x20000000, std::uint64_t{128} << 10},
    generation{"Gaudi2", 0x1020, 0x1001001800000000, std::uint64_t{768} << 10},
    generation{"Gaudi2_binned", 0x1020, 0x1001001400000000, std::uint64_t{640} << 10},
    generation{"Gaudi3", 0x1060, 0x0201002000000000, std::uint64_t{128} << 10},
    generation{"Gaudi1_in_windows", 0x1000, 0x20000000, std::uint64_t{128} << 10, 16384},
    generation{"Gaudi2_in_windows", 0x1020, 0x1001001800000000, std::uint64_t{768} << 10, 65536},
    generation{"Gaudi3_in_windows", 0x1060, 0x0201002000000000, std::uint64_t{128} << 10, 8192}};

/// A device whose addresses have bytes behind them, and a NIC that reaches these by the dma-bufs it
/// was given only. There are more addresses than memory: what is mapped leaves gaps.
class machine {
 public:
  static constexpr std::uint8_t untouched = 0xC5;
  static constexpr unsigned pages = 12;

  explicit machine(const generation& g) : base_(g.dram_base), hbm_(4 * g.page * pages, untouched) {
    using testing::_;
    driver_.pci_id = g.pci_id;
    driver_.dram_base = g.dram_base;
    driver_.page_size = g.page;
    ON_CALL(driver_.library, export_dmabuf(_, _, _, _, _))
        .WillByDefault([this](int, std::uint64_t va, std::uint64_t, std::uint64_t offset,
                              std::uint32_t) { return export_from(va + offset); });
    ON_CALL(driver_.library, export_physical(_, _, _, _))
        .WillByDefault([this](int, std::uint64_t address, std::uint64_t, std::uint32_t) {
          return export_from(address);
        });
    nic_.made = [this](test::fake_nic::registered& mr) {
      mr.note = exports_.at(inode_of(mr.dmabuf)) + mr.offset;
    };
    test::fake_nic::knows_dmabufs = true;
    device_ = *device::device::open(driver_.thunk(), {});
    registrar_.emplace(nic_.core(), base::dmabuf_choice::automatic,
                       cache_limits{.count = 64, .bytes = 1ULL << 40},
                       window_size::at_least(g.window));
  }
  ~machine() {
    registrar_.reset();
    EXPECT_EQ(nic_.live(), 0U);
    device_.reset();
    EXPECT_EQ(driver_.open_descriptors(), 0);
    EXPECT_EQ(test::open_descriptors(), descriptors_before_);
    test::fake_nic::knows_dmabufs = false;
  }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  [[nodiscard]] device::device& device() { return *device_; }

  /// Error, or 0 with the region registered.
  int attach(region& r) {
    const auto where = device_->pin_in(r.pin, r.address, r.length);
    if (!where) return where.code();
    r.owner = device_.get();
    auto got = registrar_->obtain(*device_, *where, r.length, FI_REMOTE_READ | FI_REMOTE_WRITE);
    if (!got) return got.code();
    r.transfers = *std::move(got);
    return 0;
  }

  /// What the NIC does with a write to device address `at`: by the registration's own idea of
  /// where that is, and not beyond it.
  bool write(const core::inner_mr& by, std::uint64_t at, std::uint64_t length, std::uint8_t byte) {
    const auto& mr = *static_cast<const test::fake_nic::registered*>(by.descriptor());
    if (at < mr.address || length > mr.length || at - mr.address > mr.length - length) return false;
    const std::uint64_t place = mr.note + (at - mr.address) - base_;
    if (place > hbm_.size() || length > hbm_.size() - place) return false;
    std::fill_n(hbm_.begin() + static_cast<std::ptrdiff_t>(place), length, byte);
    return true;
  }

  /// Whether [at, at + length) of device memory, as far as there is any, is all `byte`.
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t length, std::uint8_t byte) const {
    const std::uint64_t first = std::max(at, base_) - base_;
    const std::uint64_t last = std::min<std::uint64_t>(at + length - base_, hbm_.size());
    return std::all_of(hbm_.begin() + static_cast<std::ptrdiff_t>(first),
                       hbm_.begin() + static_cast<std::ptrdiff_t>(last),
                       [byte](std::uint8_t b) { return b == byte; });
  }

 private:
  static ino_t inode_of(int fd) {
    struct stat s {};
    EXPECT_EQ(::fstat(fd, &s), 0);
    return s.st_ino;
  }
  int export_from(std::uint64_t address) {
    const int fd = memfd_create("fake-dmabuf", MFD_CLOEXEC);
    exports_[inode_of(fd)] = address;
    return fd;
  }

  const long descriptors_before_ = test::open_descriptors();
  const std::uint64_t base_;
  std::vector<std::uint8_t> hbm_;
  std::map<ino_t, std::uint64_t> exports_;  // device address of each one's first byte
  test::fake_driver driver_{pages};
  test::fake_nic nic_;
  std::shared_ptr<device::device> device_;
  std::optional<dmabuf_registrar> registrar_;
};

class placement : public testing::TestWithParam<generation> {
 protected:
  using allocation = std::pair<std::uint64_t, std::uint64_t>;  // address, length

  std::uint64_t random(std::uint64_t from, std::uint64_t to) {
    return std::uniform_int_distribution<std::uint64_t>(from, to)(numbers_);
  }
  // Short ones mostly: they share pages of the NIC's, and regions of the driver's.
  std::uint64_t random_length(std::uint64_t most) {
    return random(1, random(0, 3) == 0 ? most : std::min<std::uint64_t>(most, 10'000));
  }
  allocation& some() { return live_[random(0, live_.size() - 1)]; }

  void change_allocations(machine& m) {
    if (live_.size() > 24) {
      std::swap(some(), live_.back());
      ASSERT_TRUE(m.device().free(live_.back().first));
      live_.pop_back();
    }
    const std::uint64_t length = random_length(2 * GetParam().page);
    const auto got = m.device().allocate(length);
    if (got) live_.emplace_back(*got, length);
    if (!got && !live_.empty()) {
      ASSERT_TRUE(m.device().free(live_.back().first));
      live_.pop_back();
    }
  }

  std::mt19937_64 numbers_{4711};
  std::vector<allocation> live_;
};

TEST_P(placement, of_what_a_nic_writes_is_in_the_region_and_nowhere_else) {
  constexpr std::uint64_t guard = 64;
  machine m(GetParam());
  for (unsigned i = 0; i < registrations; ++i) {
    if (live_.empty() || random(0, 7) == 0) {
      ASSERT_NO_FATAL_FAILURE(change_allocations(m));
    }
    if (live_.empty()) continue;
    const auto [base, size] = some();
    const std::uint64_t offset = random(0, size - 1);
    region r;
    r.address = base + offset;
    r.length = random_length(size - offset);
    r.access = FI_REMOTE_WRITE;
    r.virtual_address = true;
    SCOPED_TRACE(testing::Message()
                 << i << ": " << base << "+" << size << " at " << offset << "+" << r.length);
    ASSERT_EQ(m.attach(r), 0);
    ASSERT_TRUE(r.transfers);
    ASSERT_TRUE(m.write(*r.transfers.get(), r.address, r.length, 0x11));
    ASSERT_TRUE(m.holds(r.address, r.length, 0x11));
    ASSERT_TRUE(m.holds(r.address - guard, guard, machine::untouched)) << "in front";
    ASSERT_TRUE(m.holds(r.address + r.length, guard, machine::untouched)) << "behind";
    ASSERT_TRUE(m.write(*r.transfers.get(), r.address, r.length, machine::untouched));

    key_table keys;
    ASSERT_TRUE(keys.add_requested(r, 7));
    ASSERT_TRUE(keys.find(7, r.address, r.length, FI_REMOTE_WRITE));
    ASSERT_FALSE(keys.find(7, r.address - 1, r.length, FI_REMOTE_WRITE));
    ASSERT_FALSE(keys.find(7, r.address, r.length + 1, FI_REMOTE_WRITE));
    keys.remove(r);
  }
  for (const auto& [address, length] : live_) EXPECT_TRUE(m.device().free(address));
}

TEST_P(placement, no_region_crosses_the_end_of_its_allocation) {
  machine m(GetParam());
  for (unsigned i = 0; i < registrations / 10; ++i) {
    if (live_.empty() || random(0, 7) == 0) {
      ASSERT_NO_FATAL_FAILURE(change_allocations(m));
    }
    if (live_.empty()) continue;
    const auto [base, size] = some();
    const std::uint64_t offset = random(0, size - 1);
    region r;
    r.address = base + offset;
    r.length = size - offset + random(1, 5000);
    ASSERT_EQ(m.attach(r), -FI_EINVAL);
    r.address = base + size;
    r.length = 1;
    const bool is_anothers = std::any_of(live_.begin(), live_.end(), [&](const allocation& a) {
      return r.address - a.first < a.second;
    });
    ASSERT_EQ(m.attach(r), is_anothers ? 0 : -FI_ENOENT);
  }
  for (const auto& [address, length] : live_) EXPECT_TRUE(m.device().free(address));
}

INSTANTIATE_TEST_SUITE_P(generations, placement, testing::ValuesIn(generations),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace gaudi::reg
