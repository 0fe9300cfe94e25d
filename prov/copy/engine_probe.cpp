// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/engine_probe.hpp"

#include <rdma/fi_errno.h>
#include <time.h>

#include <chrono>
#include <cstring>
#include <utility>

namespace gaudi::copy {

using base::error;
using base::result;

namespace {

// Far beyond what the slowest engine needs for all of them; a device that hangs takes longer.
constexpr double stuck_after_ns = 250e6;

// What the application may still want is not to be missing while it is measured: a driver gives
// whole pages, of 768 MiB on a Gaudi2.
bool may_spare_memory(const device::device& on) {
  constexpr std::uint64_t share = 8;
  const auto free = on.hbm_free();
  return free && *free >= on.attributes().hbm_size / share;
}

// Of Synapse's pool its begin, where what is allocated first most likely lies.
result<std::uint64_t> memory_of(device::device& on, std::uint64_t ranges) {
  if (on.synapse() != nullptr) {
    const auto pool = on.pool();
    return pool.len < ranges ? result<std::uint64_t>(error{-FI_ENOMEM}) : pool.base;
  }
  if (on.attributes().owned) return on.allocate(ranges, device::purpose::internal);
  if (on.generation().physical_addresses) return error{-FI_EOPNOTSUPP};
  return may_spare_memory(on) ? on.allocate(ranges, device::purpose::internal) : error{-FI_ENOMEM};
}

}  // namespace

result<std::unique_ptr<engine_probe>> engine_probe::make(dma_engine& engine) {
  auto reached = host_pages::allocate(most);
  auto pages = host_pages::allocate(most);
  if (!reached || !pages) return error{-FI_ENOMEM};
  auto made =
      std::make_unique<engine_probe>(passkey{}, engine, *std::move(reached), *std::move(pages));
  if (const auto rc = made->reach(); !rc) return rc.failure();
  return made;
}

engine_probe::engine_probe(passkey, dma_engine& engine, host_pages reached, host_pages pages)
    : engine_(engine),
      is_synapses_(engine.owner()->synapse() != nullptr),
      reached_(std::move(reached)),
      pages_(std::move(pages)) {
  // Pages that nobody has touched are neither copied nor pinned as others are.
  std::memset(reached_.data(), 0, most);
  std::memset(pages_.data(), 0, most);
  pending_.reserve(32);
}

result<void> engine_probe::reach() {
  const auto memory = memory_of(*engine_.owner(), 2 * most);
  if (!memory) return memory.failure();
  memory_ = *memory;
  auto pinned = pinned_region::map(engine_.owner(), reached_.data(), most);
  if (!pinned) return pinned.failure();
  pinned_.emplace(*std::move(pinned));
  return {};
}

engine_probe::~engine_probe() {
  if (memory_ && !is_synapses_) static_cast<void>(engine_.owner()->free(*memory_));
}

bool engine_probe::allows(direction dir) const noexcept {
  return !is_synapses_ || dir == direction::device_to_host;
}

double engine_probe::now() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}

double engine_probe::spent() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

std::optional<double> engine_probe::copies(direction dir, std::uint64_t length, unsigned count) {
  const double began = now();
  bool good = true;
  for (unsigned i = 0; i < count && good; ++i) good = start(dir, i * length % most, length);
  // Those that did start have to end in any case.
  if (!finish() || !good) return std::nullopt;
  return now() - began;
}

bool engine_probe::start(direction dir, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t host = pinned_->device_va() + offset;
  const std::uint64_t device = *memory_ + offset;
  const std::uint64_t dst = dir == direction::device_to_host   ? host
                            : dir == direction::host_to_device ? device
                                                               : device + most;
  const std::uint64_t src = dir == direction::host_to_device ? host : device;
  const copy_part all{dst, src, length};
  const auto copy = engine_.launch({&all, 1}, dir, dma_engine::reserved_slots);
  if (!copy) return false;
  pending_.push_back(*copy);
  return true;
}

// As the endpoint does it: by looking at them.
bool engine_probe::finish() {
  const double limit = now() + stuck_after_ns;
  bool good = true;
  while (!pending_.empty()) {
    const int rc = engine_.poll(pending_.front());
    if (rc == -FI_EAGAIN && now() > limit) return false;
    if (rc == -FI_EAGAIN) continue;
    good = good && rc == 0;
    pending_.erase(pending_.begin());
  }
  return good;
}

std::optional<double> engine_probe::pin(std::uint64_t length) {
  if (is_synapses_) return std::nullopt;
  const double began = now();
  const auto pinned = [&] { return pinned_region::map(engine_.owner(), pages_.data(), length); };
  if (!pinned()) return std::nullopt;
  return now() - began;
}

std::optional<double> engine_probe::host_copy(std::uint64_t length) {
  const double began = now();
  std::memcpy(pages_.data(), reached_.data(), length);
  return now() - began;
}

}  // namespace gaudi::copy
