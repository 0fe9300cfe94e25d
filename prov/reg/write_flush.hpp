// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/params.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/nic_loop.hpp"

namespace gaudi::reg {

/// A NIC's completion promises that data has left for the device, not that the device's engines see
/// it (device API reference 3). This makes sure of it, as FI_GAUDI_FLUSH says: by a read of the NIC
/// itself, which follows its writes on the whole way, or by the driver, which reads a register of
/// the device. Not thread safe: the caller holds the domain lock.
class write_flush {
 public:
  write_flush(nic_loop& loop, base::flush_choice choice) noexcept : loop_(loop), choice_(choice) {}
  ~write_flush();
  write_flush(const write_flush&) = delete;
  write_flush& operator=(const write_flush&) = delete;

  /// Whether flush() does anything.
  [[nodiscard]] bool active() const noexcept { return choice_ != base::flush_choice::off; }

  /// Whether the NIC reads back, as far as is known: a caller that has it read the device for
  /// another reason, behind what is to be flushed, says so with count_read() and needs no flush().
  [[nodiscard]] bool reads_back() const noexcept {
    return choice_ == base::flush_choice::automatic || choice_ == base::flush_choice::read;
  }
  void count_read() noexcept { ++count_; }

  /// Returns when all that this domain's NIC has completed writing to `on` can be seen there. Takes
  /// microseconds, the first call some milliseconds. An error (-FI_E*) only where the user demanded
  /// a way that there is not; otherwise the other way is taken, or, after one warning, none.
  base::result<void> flush(device::device& on);

  /// Lets go of devices that are lost.
  void forget_lost() noexcept;

  /// Flushes that were carried out.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  // What the NIC reads: some device memory of our own, known to the NIC.
  struct page {
    std::shared_ptr<device::device> on;
    std::uint64_t address = 0;
    core::inner_mr mr;
  };

  base::result<void> by_choice(device::device& on);
  base::result<void> by_whatever_works(device::device& on);
  base::result<void> read_back(device::device& on);
  base::result<page*> page_on(device::device& on);
  static void give_back(page& p) noexcept;
  void give_up(int by_reading, int by_driver) noexcept;

  nic_loop& loop_;
  base::flush_choice choice_;
  std::map<const device::device*, page> pages_;
  alignas(8) std::array<std::byte, 8> landing_{};
  core::inner_mr landing_mr_;
  std::uint64_t count_ = 0;
};

}  // namespace gaudi::reg
