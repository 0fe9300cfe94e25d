// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/counters_layout.hpp"
#include "base/latency_histogram.hpp"

// What the values of a block mean, for who writes and who reads the counters page. A place never
// gets another meaning.
namespace gaudi::base::counters {

enum class behaviour : unsigned char {
  grows,
  level,  ///< how many there are now
};

struct value_name {
  std::size_t place;  ///< in block::values
  std::string_view name;
  behaviour kind;
  std::string_view help;
};

inline constexpr std::size_t first_path_value = 16;

inline constexpr std::array domain_values{
    value_name{0, "mr_cache_hits", behaviour::grows,
               "registrations of device memory that were found in the cache"},
    value_name{1, "mr_cache_misses", behaviour::grows, "registrations that were not found"},
    value_name{2, "registrations", behaviour::grows,
               "registrations of device memory that the NIC made"},
    value_name{3, "evictions", behaviour::grows, "cached registrations ended to make room"},
    value_name{4, "cached_registrations", behaviour::level, "registrations in the cache now"},
    value_name{5, "cached_bytes", behaviour::level, "device memory that they cover"},
    value_name{6, "refused_registrations", behaviour::grows,
               "registrations that NIC or driver refused: that memory is staged"},
    value_name{7, "flushes", behaviour::grows, "flushes of what a NIC wrote to device memory"},
    value_name{8, "endpoints", behaviour::level, "enabled endpoints now"},
    value_name{16, "eager_ops", behaviour::grows, "short messages, copied through message buffers"},
    value_name{17, "eager_bytes", behaviour::grows, "bytes of these"},
    value_name{18, "direct_ops", behaviour::grows,
               "operations between the application's memory and the wire"},
    value_name{19, "direct_bytes", behaviour::grows, "bytes of these"},
    value_name{20, "staged_ops", behaviour::grows, "chunks through host buffers"},
    value_name{21, "staged_bytes", behaviour::grows, "bytes of these"},
    value_name{22, "zero_copy_ops", behaviour::grows, "of the direct ones: on device memory"},
    value_name{23, "zero_copy_bytes", behaviour::grows, "bytes of these"},
    value_name{24, "cma_ops", behaviour::grows, "copies from process to process on this host"},
    value_name{25, "cma_bytes", behaviour::grows, "bytes of these"},
    value_name{26, "shm_ops", behaviour::grows,
               "of the eager and staged ones: through memory shared with a peer on this host"},
    value_name{27, "engine_ops", behaviour::grows,
               "copies within a device, between endpoints of one process"},
    value_name{28, "engine_bytes", behaviour::grows, "bytes of these"},
    value_name{29, "dmabuf_ipc_ops", behaviour::grows,
               "of the direct ones: by a dma-buf that a peer on this host passed"},
    value_name{30, "dmabuf_ipc_bytes", behaviour::grows, "bytes of these"},
    value_name{31, "peer_stalls", behaviour::grows,
               "operations put off: the peer had granted no credit"},
    value_name{32, "local_stalls", behaviour::grows,
               "sends put off: no free buffer, or no room at the NIC"},
    value_name{33, "connections_made", behaviour::grows, "connections that came up"},
    value_name{34, "connections_lost", behaviour::grows,
               "connections that failed or that the peer ended"},
    value_name{35, "connections_closed", behaviour::grows,
               "connections closed as an end has no address of the other any more"},
    value_name{36, "connections_interrupted", behaviour::grows,
               "connections that the network or the NIC ended"},
    value_name{37, "connections_resumed", behaviour::grows,
               "of these: made again, with nothing lost"},
    value_name{38, "path_one_device", behaviour::grows,
               "transfers within one device, of one process"},
    value_name{39, "path_source_passes_dmabuf", behaviour::grows,
               "transfers by the dma-buf that the sender passed"},
    value_name{40, "path_source_can_be_read", behaviour::grows, "transfers that the receiver read"},
    value_name{41, "path_source_asks_to_write", behaviour::grows,
               "transfers that the sender wrote, as its memory is not to be read"},
    value_name{42, "path_source_is_kept", behaviour::grows,
               "transfers not read: the kernel keeps the sender's memory"},
    value_name{43, "path_no_import", behaviour::grows,
               "transfers not read: no NIC here reads the sender's device memory"},
    value_name{44, "path_staging_is_chosen", behaviour::grows, "transfers staged by FI_GAUDI_RNDV"},
    value_name{45, "path_device_is_not_reached", behaviour::grows,
               "transfers staged: no NIC has the receiver's device memory registered"},
    value_name{46, "path_sink_is_kept", behaviour::grows,
               "transfers staged: the kernel keeps the receiver's memory from the sender"},
    value_name{47, "path_core_reads_badly", behaviour::grows,
               "transfers not read: the core tcp before libfabric 1.18 does not do it safely"},
    value_name{48, "rail_ops", behaviour::grows,
               "of the direct and staged ones: over other rails than the first"},
    value_name{49, "rail_bytes", behaviour::grows, "bytes of these"},
    value_name{50, "rails_made", behaviour::grows, "rails beside the first that came up"},
    value_name{51, "rails_lost", behaviour::grows,
               "of these: that the network or the NIC ended; the others did their work"},
    value_name{52, "packets_again", behaviour::grows,
               "packets sent again, as an interrupted connection may have lost them"},
    value_name{53, "rma_again", behaviour::grows,
               "RMA of the core done again, as its connection or rail was lost"},
    value_name{54, "connections_moved", behaviour::grows,
               "of those resumed: over another link than before"},
};

inline constexpr std::array device_values{
    value_name{0, "exports", behaviour::grows, "dma-bufs that the driver made"},
    value_name{1, "stale_refusals", behaviour::grows,
               "regions and copies refused because the memory was being freed"},
    value_name{2, "copies", behaviour::grows, "copies given to the copy engine"},
    value_name{3, "host_to_device_bytes", behaviour::grows, "bytes given to it to copy"},
    value_name{4, "device_to_host_bytes", behaviour::grows, "bytes given to it to copy"},
    value_name{5, "device_to_device_bytes", behaviour::grows, "bytes given to it to copy"},
    value_name{6, "zero_copy_bytes", behaviour::grows,
               "bytes that a NIC read from or wrote to the device's memory"},
    value_name{7, "staged_bytes", behaviour::grows,
               "bytes between the device's memory and host buffers"},
};

inline constexpr std::array rail_values{
    value_name{0, "ops", behaviour::grows, "RMA of the core that went over this rail"},
    value_name{1, "bytes", behaviour::grows, "bytes of these"},
    value_name{2, "made", behaviour::grows, "times that it came up, to any peer"},
    value_name{3, "lost", behaviour::grows, "of these: that the network or the NIC ended"},
    value_name{4, "up", behaviour::level, "peers that it goes to now"},
    value_name{5, "flushes", behaviour::grows,
               "before completions: what its NIC wrote to device memory is visible there"},
};

/// Behind them the buckets of latency_histogram, which grow as well.
inline constexpr std::array latency_values{
    value_name{0, "count", behaviour::grows, "operations that were timed"},
    value_name{1, "sum", behaviour::grows, "nanoseconds that they took, together"},
};
inline constexpr std::size_t first_bucket = latency_values.size();

constexpr std::span<const value_name> values_of(block_kind kind) noexcept {
  if (kind == block_kind::domain) return domain_values;
  if (kind == block_kind::device) return device_values;
  if (kind == block_kind::latency) return latency_values;
  if (kind == block_kind::rail) return rail_values;
  return {};
}

/// How many of a block's values the kind uses, with gaps among them.
constexpr std::size_t value_count(block_kind kind) noexcept {
  if (kind == block_kind::latency) return first_bucket + latency_histogram::bucket_count;
  const auto values = values_of(kind);
  return values.empty() ? 0 : values.back().place + 1;
}

static_assert(value_count(block_kind::domain) <= max_values);
static_assert(value_count(block_kind::device) <= max_values);

}  // namespace gaudi::base::counters
