// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/copy_router.hpp"

#include <rdma/fi_errno.h>

#include <chrono>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "copy/copy_queues.hpp"
#include "copy/cpu_copy.hpp"

namespace gaudi::copy {
namespace {

void copy_by_cpu(const host_place& here, const app_place& there, std::size_t length,
                 direction dir) noexcept {
  auto* const app = reinterpret_cast<std::byte*>(there.address);
  const bool to_app = dir == direction::host_to_device;
  to_app ? by_cpu(app, here.bytes, length) : by_cpu(here.bytes, app, length);
}

}  // namespace

int copy_router::submit(copy_job& job, const host_place& here, const app_place& there,
                        std::size_t length, direction dir) {
  if (there.owner && copy_queues::are_on(*there.owner))
    return submit_to_engine(job, here, there, length, dir);
  if (!there.is_host) return copy_by_nic(here, there, length, dir);
  copy_by_cpu(here, there, length, dir);
  return 0;
}

int copy_router::copy_by_nic(const host_place& here, const app_place& there, std::size_t length,
                             direction dir) {
  const int ret = nic_.copy(here, there, length, dir);
  if (!there.owner) return ret;
  // The engine, that is, says so.
  if (ret == -FI_EOPNOTSUPP) return engines_.engine_for(*there.owner).code();
  if (ret != 0) return ret;
  there.owner->counted().staged_bytes.add(length);
  const bool is_written = dir == direction::host_to_device;
  return is_written && flush_ ? flush_->flush(*there.owner).code() : 0;
}

int copy_router::submit_to_engine(copy_job& job, const host_place& here, const app_place& there,
                                  std::size_t length, direction dir) {
  const base::cancellation_deferred until_it_is_submitted;
  const auto engine = engines_.engine_for(*there.owner);
  if (!engine) return engine.code();
  const auto host = here.of->device_address(*there.owner, here.bytes);
  if (!host) return host.code();
  const bool to_device = dir == direction::host_to_device;
  const copy_part part{to_device ? there.address : *host, to_device ? *host : there.address,
                       length};
  return engines_.submit(**engine, job, part, dir);
}

bool copy_router::bring_short(const host_place& from, const app_place& to, std::size_t length,
                              bool is_whole) {
  if (to.is_host) {
    copy_by_cpu(from, to, length, direction::host_to_device);
    return true;
  }
  const bool is_timed = is_whole && to.owner && short_limit_.wants_time(length);
  const auto began = is_timed ? clock_.now() : base::clock::time_point{};
  if (nic_.copy(from, to, length, direction::host_to_device) != 0) return false;
  if (to.owner) to.owner->counted().staged_bytes.add(length);
  if (is_timed) {
    const std::chrono::duration<double, std::nano> took = clock_.now() - began;
    add_time(*to.owner, length, took.count());
  }
  return true;
}

// A device without an engine leaves it to the NIC.
void copy_router::add_time(device::device& on, std::size_t length, double nic_ns) {
  if (!short_limit_.add_sample(length, nic_ns) || !copy_queues::are_on(on)) return;
  const auto engine = engines_.engine_for(on);
  const bool flushes = flush_ && flush_->reads_back(on);
  if (engine && short_limit_.update(length, (*engine)->table()[direction::host_to_device], flushes))
    GAUDI_INFO(EP_DATA, "short messages to %s: by the NIC up to %s, else by the engine\n",
               on.attributes().bus_id.c_str(), limit_text(short_limit_.limit()).c_str());
}

}  // namespace gaudi::copy
