// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>

#include "base/clock.hpp"
#include "base/params.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/flush_page.hpp"
#include "reg/nic_loopback.hpp"

namespace gaudi::reg {

/// A NIC's completion promises that data has left for the device, not that the device's engines see
/// it (prov/docs/device.md, 3.6). This makes sure of it, as FI_GAUDI_FLUSH says: by a read of the
/// NIC itself, which follows its writes on the whole way, or by the driver, which reads a register
/// of the device. Each device is flushed in the way that works for it. Not thread safe: the caller
/// holds the domain lock.
class write_flush {
 public:
  /// `seen`, if any, is where count() is kept; it outlives this. `clock` measures how long a device
  /// goes without an attempt to read it.
  write_flush(nic_loopback& loop, base::flush_choice choice, std::uint64_t* seen = nullptr,
              base::clock clock = {}) noexcept
      : loop_(loop), choice_(choice), clock_(clock), count_(seen ? seen : &unseen_) {}
  write_flush(const write_flush&) = delete;
  write_flush& operator=(const write_flush&) = delete;

  /// Whether flush() does anything, as far as the user is concerned.
  [[nodiscard]] bool active() const noexcept { return choice_ != base::flush_choice::off; }

  /// Whether the NIC reads back from this device, as far as is known: a caller that has it read the
  /// device for another reason, behind what is to be flushed, says so with count_read() and needs
  /// no flush().
  [[nodiscard]] bool reads_back(const device::device& on) const noexcept;
  void count_read() noexcept { ++*count_; }

  /// Returns when all that this domain's NIC has completed writing to `on` can be seen there. Takes
  /// microseconds, the first call some milliseconds. Where neither way exists for that device, one
  /// warning says so and nothing is done. An error (-FI_E*): device::lost(); the way that the user
  /// demanded does not exist; or what exists failed this time, and is tried again at the next call.
  /// A NIC that failed several times to read a device is asked again for that device after a pause,
  /// which doubles; one that cannot is not.
  base::result<void> flush(device::device& on);

  /// Lets go of devices that are lost.
  void forget_lost() noexcept;

  /// Flushes that were carried out.
  [[nodiscard]] std::uint64_t count() const noexcept { return *count_; }
  /// Counts them there from now on; it outlives this.
  void count_in(std::uint64_t& seen) noexcept { count_ = &seen; }

 private:
  // read: until it turns out not to work.
  enum class method : std::uint8_t { read, driver, none };
  static constexpr std::chrono::seconds min_pause{1};
  static constexpr std::chrono::seconds max_pause{512};

  struct known_device {
    explicit known_device(device::device& on) : page(on) {}
    flush_page page;
    method way = method::read;
    unsigned failed_reads = 0;  // in a row
    // Until when the way stays as it is, where the NIC failed but may yet read.
    base::clock::time_point next_try = base::clock::time_point::max();
    std::chrono::seconds pause = min_pause;
  };

  known_device& known(device::device& on);
  base::result<void> by_choice(known_device& at);
  base::result<void> by_whatever_works(known_device& at);
  [[nodiscard]] bool nic_cannot(const known_device& at) const noexcept;
  void reconsider(known_device& at) const noexcept;
  void settle_on(known_device& at, method way) const noexcept;
  base::result<void> read_back(known_device& at);
  base::result<void> ask_driver(const known_device& at);
  base::result<void> prepare_landing();
  void warn_unflushed(const known_device& at, int by_reading, int by_driver) const noexcept;

  nic_loopback& loop_;
  const base::flush_choice choice_;
  const base::clock clock_;
  std::list<known_device> devices_;
  alignas(8) std::array<std::byte, 8> landing_{};
  core::inner_mr landing_mr_;
  std::uint64_t unseen_ = 0;
  std::uint64_t* count_;
};

}  // namespace gaudi::reg
