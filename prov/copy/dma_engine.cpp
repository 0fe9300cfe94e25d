// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/dma_engine.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "base/probes.hpp"
#include "copy/calibration.hpp"
#include "copy/engine_probe.hpp"
#include "copy/per_device.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::copy {
namespace {

using base::error;
using base::result;

// A ticket is turn << index_bits | slot index; turns of copies in flight are even and not 0.
constexpr unsigned index_bits = 8;

constexpr std::uint64_t wait_slice_us = 1'000'000;
// The driver gives a submission up after 30 s by default; what is not over by then never will be.
constexpr unsigned destruction_slices = 60;

/// What was measured of devices, for the next engine of the same one: a device stays what it is
/// while the process lives. Thread safe.
class measured_tables {
 public:
  /// Bus id, and whether the queues that it has for us are Synapse's.
  using name = std::pair<std::string, bool>;
  static name name_of(const device::device& on) {
    return {on.attributes().bus_id, on.synapse() != nullptr};
  }

  /// Makes room for what will be measured: whether that is kept depends on time, but not what
  /// memory a process has. Throws std::bad_alloc.
  std::optional<copy_table> find_or_expect(const name& of) {
    const base::scoped_lock lock(mutex_);
    return tables_[of];
  }
  void keep(const name& of, const copy_table& table) {
    const base::scoped_lock lock(mutex_);
    tables_[of] = table;
  }

 private:
  base::mutex mutex_;
  std::map<name, std::optional<copy_table>> tables_ GAUDI_GUARDED_BY(mutex_);
};

}  // namespace

result<std::shared_ptr<dma_engine>> dma_engine::for_device(
    const std::shared_ptr<device::device>& owner, const engine_config& config) {
  auto& engines = base::per_process<per_device<dma_engine>>::get();
  return engines.get(owner, [&] { return make(owner, config); });
}

result<std::shared_ptr<dma_engine>> dma_engine::make(const std::shared_ptr<device::device>& owner,
                                                     const engine_config& config) {
  if (const int gone = owner->lost(); gone != 0) return error{gone};
  auto queues = copy_queues::of(owner);
  if (!queues) return queues.failure();
  return std::make_shared<dma_engine>(passkey{}, owner, *std::move(queues), config);
}

dma_engine::dma_engine(passkey, std::shared_ptr<device::device> owner,
                       std::unique_ptr<copy_queues> queues, const engine_config& config)
    : owner_(std::move(owner)),
      queues_(std::move(queues)),
      slot_count_(std::min(queues_->slots(), max_slots)),
      config_(config),
      free_count_(slot_count_) {
  for (unsigned i = 0; i < slot_count_; ++i) slots_[i].next_free = i + 1;
  owner_->add_observer(*this);
}

dma_engine::~dma_engine() {
  for (unsigned i = 0; i < slot_count_; ++i) {
    const std::uint64_t turn = slots_[i].turn.load(std::memory_order_acquire);
    if ((turn & 1) != 0) continue;
    const ticket pending{turn << index_bits | i};
    for (unsigned slice = 0; slice < destruction_slices; ++slice)
      if (wait_us(pending, wait_slice_us) != -FI_EAGAIN) break;
  }
  owner_->remove_observer(*this);
}

unsigned dma_engine::take_slot(unsigned leave) noexcept {
  const base::scoped_lock lock(mutex_);
  if (free_count_ <= leave) return slot_count_;
  --free_count_;
  return std::exchange(first_free_, slots_[first_free_].next_free);
}

void dma_engine::give_slot(unsigned index) noexcept {
  const base::scoped_lock lock(mutex_);
  slots_[index].next_free = std::exchange(first_free_, index);
  ++free_count_;
}

void dma_engine::count(std::uint64_t len, direction dir) noexcept {
  device::counters& all = owner_->counted();
  all.copies.add();
  auto& bytes = dir == direction::host_to_device   ? all.host_to_device_bytes
                : dir == direction::device_to_host ? all.device_to_host_bytes
                                                   : all.device_to_device_bytes;
  bytes.add(len);
}

result<ticket> dma_engine::start(std::span<const copy_part> parts, direction dir, unsigned leave) {
  const auto started = launch(parts, dir, leave);
  if (!started) return started;
  for (const copy_part& part : parts) {
    base::probes::copy_start(started->id, part.length, static_cast<int>(dir));
    count(part.length, dir);
  }
  return started;
}

result<ticket> dma_engine::launch(std::span<const copy_part> parts, direction dir, unsigned leave) {
  if (const int gone = owner_->lost(); gone != 0) return error{gone};
  const unsigned index = take_slot(leave);
  if (index == slot_count_) return error{-FI_EAGAIN};

  if (const auto rc = queues_->start(index, parts, dir); !rc) {
    give_slot(index);
    return error{failed(rc.code())};
  }
  slot& taken = slots_[index];
  taken.began = clock::now();
  const std::uint64_t turn = taken.turn.load(std::memory_order_relaxed) + 1;
  taken.turn.store(turn, std::memory_order_release);
  return ticket{turn << index_bits | index};
}

int dma_engine::wait_us(ticket which, std::uint64_t timeout_us) noexcept {
  if (which.id == 0) return 0;
  const auto index = static_cast<unsigned>(which.id & ((1U << index_bits) - 1));
  const std::uint64_t turn = which.id >> index_bits;
  if (index >= slot_count_ || slots_[index].turn.load(std::memory_order_acquire) != turn)
    return -FI_EINVAL;

  int rc = owner_->lost();
  if (rc == 0) {
    const auto status = queues_->wait(index, timeout_us);
    const bool busy = status && *status == hl::cs_status::busy;
    if (busy && !hangs(slots_[index])) return -FI_EAGAIN;
    if (busy) rc = owner_->lose(-FI_ETIMEDOUT, "a copy did not end within FI_GAUDI_COPY_TIMEOUT");
    if (!status) rc = end_by(status.code());
  }
  slots_[index].turn.store(turn + 1, std::memory_order_release);
  give_slot(index);
  base::probes::copy_complete(which.id, rc);
  return rc;
}

int dma_engine::wait(ticket which, int timeout_ms) noexcept {
  if (timeout_ms >= 0) {
    const int rc = wait_us(which, static_cast<std::uint64_t>(timeout_ms) * 1000);
    return rc == -FI_EAGAIN ? -FI_ETIMEDOUT : rc;
  }
  int rc = -FI_EAGAIN;
  while (rc == -FI_EAGAIN) rc = wait_us(which, wait_slice_us);
  return rc;
}

bool dma_engine::hangs(const slot& pending) const noexcept {
  return config_.timeout.count() != 0 && clock::now() - pending.began > config_.timeout;
}

const copy_table& dma_engine::table() noexcept {
  std::call_once(measured_, [this] {
    // Without memory for it the defaults do.
    static_cast<void>(hl::or_no_memory([this] {
      if (config_.table.calibrate) measure();
      table_.apply(config_.table);
      tell_table();
      return result<void>();
    }));
  });
  return table_;
}

void dma_engine::measure() {
  auto& known = base::per_process<measured_tables>::get();
  const measured_tables::name name = measured_tables::name_of(*owner_);
  if (const auto before = known.find_or_expect(name)) {
    table_ = *before;
    return;
  }
  auto probe = engine_probe::make(*this);
  if (!probe) return;
  table_ = calibrated(**probe);
  const auto is_done = [&](direction dir) {
    return table_[dir].is_measured() || !(*probe)->allows(dir);
  };
  if ((*probe)->is_stuck()) {
    stuck_ = *std::move(probe);
  } else if (std::all_of(all_directions.begin(), all_directions.end(), is_done)) {
    known.keep(name, table_);
  }
}

void dma_engine::tell_table() const {
  for (const direction dir : all_directions)
    GAUDI_INFO(CORE, "copies of %s, %s: %s\n", owner_->attributes().bus_id.c_str(), name_of(dir),
               to_text(table_[dir]).c_str());
}

/// A wait that fails for whatever reason leaves a copy of which nobody knows when it ends.
int dma_engine::end_by(int code) noexcept {
  failed(code);
  return owner_->lose(code, "its driver failed a copy");
}

/// In reset, aborted, timed out, removed: prov/docs/device.md, 2.6.
int dma_engine::failed(int code) noexcept {
  switch (code) {
    case -FI_EPERM:
    case -FI_EIO:
      return owner_->lose(code, "it aborted a copy, as its driver resets it");
    case -FI_ETIMEDOUT:
      return owner_->lose(code, "its driver gave up a copy that did not end");
    default:
      return owner_->cause_of(code);
  }
}

}  // namespace gaudi::copy
