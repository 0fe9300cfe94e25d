// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The binary interface of libhl-thunk that the stand-in offers, declared in our own words. Source:
// prov/docs/device.md, 1.2, 1.3 and 1.6 (layouts measured on x86-64).

enum hlthunk_device_name : int {
  HLTHUNK_DEVICE_GAUDI = 2,
  HLTHUNK_DEVICE_INVALID = 3,
  HLTHUNK_DEVICE_DONT_CARE = 4,
  HLTHUNK_DEVICE_GAUDI2 = 5,
  HLTHUNK_DEVICE_GAUDI3 = 7,
};

enum hl_device_status : int {
  HL_DEVICE_STATUS_OPERATIONAL = 0,
  HL_DEVICE_STATUS_IN_RESET = 1,
  HL_DEVICE_STATUS_MALFUNCTION = 2,
};

enum hl_wait_cs_status : uint32_t {
  HL_WAIT_CS_STATUS_COMPLETED = 0,
  HL_WAIT_CS_STATUS_BUSY = 1,
  HL_WAIT_CS_STATUS_TIMEDOUT = 2,
  HL_WAIT_CS_STATUS_ABORTED = 3,
};

inline constexpr uint64_t HL_NOTIFIER_EVENT_DEVICE_RESET = 1 << 2;
inline constexpr uint64_t HL_NOTIFIER_EVENT_CS_TIMEOUT = 1 << 3;
inline constexpr uint64_t HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE = 1 << 4;
inline constexpr uint64_t HL_NOTIFIER_EVENT_USER_ENGINE_ERR = 1 << 5;
inline constexpr uint64_t HL_NOTIFIER_EVENT_GENERAL_HW_ERR = 1 << 6;
inline constexpr uint64_t HL_NOTIFIER_EVENT_PAGE_FAULT = 1 << 8;

inline constexpr uint32_t HL_CS_FLAGS_FORCE_RESTORE = 0x1;
inline constexpr uint32_t HL_CS_FLAGS_FLUSH_PCI_HBW_WRITES = 0x8000;
inline constexpr uint32_t HL_CS_CHUNK_FLAGS_USER_ALLOC_CB = 0x1;
inline constexpr uint32_t HL_MEM_FORCE_HINT = 0x8;

struct hlthunk_hw_ip_info {
  uint64_t sram_base_address;
  uint64_t dram_base_address;
  uint64_t dram_size;
  uint32_t sram_size;
  uint32_t num_of_events;
  uint32_t device_id;
  uint32_t cpld_version;
  uint32_t psoc_pci_pll_nr, psoc_pci_pll_nf, psoc_pci_pll_od, psoc_pci_pll_div_factor;
  uint16_t tpc_enabled_mask;
  uint8_t dram_enabled;
  char cpucp_version[128];
  uint32_t module_id;
  char card_name[16];
  uint32_t decoder_enabled_mask;
  uint8_t mme_master_slave_mode;
  uint64_t tpc_enabled_mask_ext;
  uint64_t dram_page_size;
  uint16_t first_available_interrupt_id;
  uint32_t edma_enabled_mask;
  uint16_t server_type;
  uint64_t pdma_user_owned_ch_mask;
  uint16_t number_of_user_interrupts;
  uint64_t device_mem_alloc_default_page_size;
  uint64_t nic_ports_mask;
  uint8_t interposer_version;
  uint8_t substrate_version;
  uint64_t nic_ports_external_mask;
  uint32_t mme_enabled_mask;
  uint8_t odp_supported;
  uint8_t security_enabled;
  uint8_t revision_id;
  uint16_t tpc_interrupt_id;
  uint64_t engine_core_interrupt_reg_addr;
  uint32_t rotator_enabled_mask;
  uint32_t sched_arc_enabled_mask;
  uint64_t reserved_dram_size;
};
static_assert(sizeof(hlthunk_hw_ip_info) == 336);
static_assert(offsetof(hlthunk_hw_ip_info, device_id) == 32);
static_assert(offsetof(hlthunk_hw_ip_info, tpc_enabled_mask) == 56);
static_assert(offsetof(hlthunk_hw_ip_info, dram_enabled) == 58);
static_assert(offsetof(hlthunk_hw_ip_info, cpucp_version) == 59);
static_assert(offsetof(hlthunk_hw_ip_info, module_id) == 188);
static_assert(offsetof(hlthunk_hw_ip_info, card_name) == 192);
static_assert(offsetof(hlthunk_hw_ip_info, decoder_enabled_mask) == 208);
static_assert(offsetof(hlthunk_hw_ip_info, mme_master_slave_mode) == 212);
static_assert(offsetof(hlthunk_hw_ip_info, tpc_enabled_mask_ext) == 216);
static_assert(offsetof(hlthunk_hw_ip_info, dram_page_size) == 224);
static_assert(offsetof(hlthunk_hw_ip_info, first_available_interrupt_id) == 232);
static_assert(offsetof(hlthunk_hw_ip_info, edma_enabled_mask) == 236);
static_assert(offsetof(hlthunk_hw_ip_info, server_type) == 240);
static_assert(offsetof(hlthunk_hw_ip_info, pdma_user_owned_ch_mask) == 248);
static_assert(offsetof(hlthunk_hw_ip_info, number_of_user_interrupts) == 256);
static_assert(offsetof(hlthunk_hw_ip_info, device_mem_alloc_default_page_size) == 264);
static_assert(offsetof(hlthunk_hw_ip_info, nic_ports_mask) == 272);
static_assert(offsetof(hlthunk_hw_ip_info, interposer_version) == 280);
static_assert(offsetof(hlthunk_hw_ip_info, nic_ports_external_mask) == 288);
static_assert(offsetof(hlthunk_hw_ip_info, mme_enabled_mask) == 296);
static_assert(offsetof(hlthunk_hw_ip_info, security_enabled) == 301);
static_assert(offsetof(hlthunk_hw_ip_info, tpc_interrupt_id) == 304);
static_assert(offsetof(hlthunk_hw_ip_info, engine_core_interrupt_reg_addr) == 312);
static_assert(offsetof(hlthunk_hw_ip_info, rotator_enabled_mask) == 320);
static_assert(offsetof(hlthunk_hw_ip_info, reserved_dram_size) == 328);

struct hlthunk_dram_usage_info {
  uint64_t dram_free_mem;
  uint64_t ctx_dram_mem;
};

struct hlthunk_open_stats_info {
  uint64_t open_counter;
  uint64_t last_open_period_ms;
  uint8_t is_compute_ctx_active;
  uint8_t compute_ctx_in_release;
};
static_assert(sizeof(hlthunk_open_stats_info) == 24);

struct hlthunk_reset_count_info {
  uint32_t hard_reset_count;
  uint32_t soft_reset_count;
};

struct hlthunk_sync_manager_info {
  uint32_t first_available_sync_object;
  uint32_t first_available_monitor;
  uint32_t first_available_cq;
  uint32_t pad;
};

struct hl_cs_chunk {
  uint64_t cb_handle;
  uint32_t queue_index;
  uint32_t cb_size;
  uint32_t cs_chunk_flags;
  uint32_t collective_engine_id;
  uint32_t pad[10];
};
static_assert(sizeof(hl_cs_chunk) == 64);

struct hlthunk_cs_in {
  void* chunks_restore;
  void* chunks_execute;
  uint32_t num_chunks_restore;
  uint32_t num_chunks_execute;
  uint32_t flags;
};
static_assert(sizeof(hlthunk_cs_in) == 32);

struct hlthunk_cs_out {
  uint64_t seq;
  uint32_t status;
  uint16_t sob_count_before_submission;
};
static_assert(sizeof(hlthunk_cs_out) == 16);

struct hlthunk_wait_multi_cs_in {
  uint64_t* seq;
  uint64_t timeout_us;
  uint32_t seq_len;
};
static_assert(sizeof(hlthunk_wait_multi_cs_in) == 24);

struct hlthunk_wait_multi_cs_out {
  uint32_t status;
  uint32_t seq_set;
  uint8_t completed;
};
static_assert(sizeof(hlthunk_wait_multi_cs_out) == 12);
