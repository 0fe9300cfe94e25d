// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bus_id.hpp"
#include "call.hpp"
#include "cs_table.hpp"
#include "hlsim.hpp"
#include "memory.hpp"

// The INFO calls: they work on compute and control nodes, in reset as well. Reference, sections 1.6
// and 2.1.

using namespace hlsim;

namespace {

int fill_hw_ip(context& c, hlthunk_hw_ip_info& info) {
  const model& m = c.device();
  const device_state& s = c.state();
  info = {};
  info.sram_base_address = m.sram.first;
  info.sram_size = static_cast<uint32_t>(m.sram.end - m.sram.first);
  info.dram_base_address = m.hbm_va.first;
  info.dram_size = hbm_bytes(s);
  info.dram_enabled = 1;
  info.dram_page_size = info.device_mem_alloc_default_page_size =
      m.mmu_page != 0 ? m.mmu_page : s.default_page;
  info.device_id = m.pci_device_id;
  info.module_id = s.index;
  info.edma_enabled_mask = m.edma_mask;
  info.server_type = m.server_type;
  std::snprintf(info.card_name, sizeof info.card_name, "%s", m.card_name);
  std::snprintf(info.cpucp_version, sizeof info.cpucp_version, "%s", m.description);
  return 0;
}

uint64_t milliseconds_since(uint64_t then_ns) {
  return (now_ns() - then_ns) / 1'000'000;
}

}  // namespace

int hlthunk_get_hw_ip_info(int fd, hlthunk_hw_ip_info* info) {
  if (!info) return -EINVAL;
  return info_call(fd, [&](context& c) { return fill_hw_ip(c, *info); });
}

uint32_t hlthunk_get_device_id_from_fd(int fd) {
  const context_ref c = find_context(fd);
  return c ? c->device().pci_device_id : 0;
}

hlthunk_device_name hlthunk_get_device_name_from_fd(int fd) {
  const context_ref c = find_context(fd);
  return c ? c->device().name : HLTHUNK_DEVICE_INVALID;
}

int hlthunk_get_pci_bus_id_from_fd(int fd, char* text, int size) {
  return info_call(fd, [&](context& c) {
    const std::string id = bus_id_of(c.state().index);
    if (!text || size <= static_cast<int>(id.size())) return -EINVAL;
    std::memcpy(text, id.c_str(), id.size() + 1);
    return 0;
  });
}

int hlthunk_get_dram_usage(int fd, hlthunk_dram_usage_info* info) {
  if (!info) return -EINVAL;
  return info_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    info->dram_free_mem = free_bytes(c.state());
    info->ctx_dram_mem = hbm_bytes(c.state()) - info->dram_free_mem;
    return 0;
  });
}

int hlthunk_get_device_status_info(int fd) {
  return info_call(fd, [](context& c) { return c.status(); });
}

bool hlthunk_is_device_idle(int fd) {
  const context_ref c = find_context(fd);
  return c && is_idle(c->state());
}

int hlthunk_get_open_stats(int fd, hlthunk_open_stats_info* info) {
  if (!info) return -EINVAL;
  return info_call(fd, [&](context& c) {
    is_held(c.state());
    const state_lock lock(c.state());
    const device_state& s = c.state();
    *info = {};
    info->open_counter = s.open_count;
    info->last_open_period_ms = s.context_active ? milliseconds_since(s.opened_ns)
                                                 : (s.closed_ns - s.opened_ns) / 1'000'000;
    info->is_compute_ctx_active = s.context_active != 0;
    return 0;
  });
}

int hlthunk_get_reset_count_info(int fd, hlthunk_reset_count_info* info) {
  if (!info) return -EINVAL;
  return info_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    *info = {c.state().hard_resets, 0};
    return 0;
  });
}

int hlthunk_get_sync_manager_info(int fd, int dcore, hlthunk_sync_manager_info* info) {
  constexpr int dcores = 4;
  if (!info || dcore < 0 || dcore >= dcores) return -EINVAL;
  return info_call(fd, [&](context&) {
    *info = {};
    return 0;
  });
}

int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t* bitmask) {
  if (!bitmask) return -EINVAL;
  // A Gaudi1 allocates nothing, and the page size of a Gaudi2 is fixed and no power of two: there
  // is no order to choose.
  return info_call(fd, [&](const context& c) {
    *bitmask = c.device().page_orders;
    return 0;
  });
}

char* hlthunk_get_version(void) {
  return ::strdup(hlsim_description());
}

// The real ones are calloc and free: the C interface hands blocks across.
void* hlthunk_malloc(size_t size) {
  return std::calloc(1, size);
}
void hlthunk_free(void* block) {
  std::free(block);
}

const char* hlsim_description(void) {
  return configured_model().description;
}
