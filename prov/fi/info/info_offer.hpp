// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "fi/common/retired.hpp"

/// What an endpoint of the provider can do, and how that is matched with what an application asks
/// (fi_getinfo(3), fi_endpoint(3), fi_domain(3), fi_mr(3)).
namespace gaudi::fi::offer {

/// Capabilities that an application must name to get them, once it names any.
inline constexpr std::uint64_t primary_caps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_HMEM;
/// Narrow a primary capability; none named means all.
inline constexpr std::uint64_t message_directions = FI_SEND | FI_RECV;
inline constexpr std::uint64_t rma_directions =
    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// Cost nothing and are always reported.
inline constexpr std::uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
/// Cost something, so that nobody gets them who did not ask.
inline constexpr std::uint64_t only_if_asked = FI_RMA_EVENT | FI_SOURCE_ERR;
inline constexpr std::uint64_t caps = primary_caps | message_directions | rma_directions |
                                      domain_caps | FI_SOURCE | FI_FENCE | only_if_asked;
inline constexpr std::uint64_t tx_caps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
inline constexpr std::uint64_t rx_caps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM | FI_DIRECTED_RECV | FI_MULTI_RECV |
    FI_RMA_EVENT | FI_SOURCE_ERR | FI_SOURCE | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;

inline constexpr std::uint64_t tx_op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                                             FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MORE |
                                             FI_FENCE;
inline constexpr std::uint64_t rx_op_flags = FI_COMPLETION | FI_MORE | FI_MULTI_RECV;

/// Messages of one sender match in the order they were sent, and its atomic operations are carried
/// out in that order.
inline constexpr std::uint64_t own_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR |
                                           FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
                                           FI_ORDER_ATOMIC_WAW;
/// What the core keeps where it does RMA alone: with direct_mr_mode and without device memory, part
/// of which is staged. Nothing is promised between RMA and atomic operations, which are messages.
inline constexpr std::uint64_t direct_order =
    FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW | FI_ORDER_SAW;
inline constexpr std::uint64_t msg_order = own_order | direct_order;

inline constexpr std::size_t inject_size = 1024;  ///< bytes
inline constexpr std::size_t queue_size = 1024;   ///< operations outstanding per direction
inline constexpr std::size_t iov_limit = 4;
inline constexpr std::size_t rma_iov_limit = 16;
inline constexpr std::size_t mr_iov_limit = 1;
inline constexpr std::size_t cq_data_size = 8;  ///< bytes
inline constexpr std::size_t mr_key_size = 8;   ///< bytes
/// No counter of the wire format is narrower; one TiB is more than any memory it could describe.
inline constexpr std::size_t max_msg_size = std::size_t{1} << 40;
inline constexpr std::size_t object_count =
    1024;  ///< endpoints and queues per domain: advice, no limit
inline constexpr std::size_t mr_count = 65536;  ///< advice, no limit

inline constexpr std::uint32_t protocol = retired::provider_specific | 0x6761U;  // "ga"
inline constexpr std::uint32_t protocol_version = 1;

/// All 64 bits of a tag take part in matching (FI_TAG_GENERIC).
inline constexpr std::uint64_t mem_tag_format = 0xAAAAAAAAAAAAAAAAULL;

/// The registration modes of the direct path: the core's keys and virtual addresses are used as
/// they are.
inline constexpr int direct_mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

/// The capabilities to report for what was asked (0: everything but FI_HMEM, which `hmem` adds).
std::uint64_t granted_caps(std::uint64_t asked, bool hmem) noexcept;

/// The registration mode to report: a subset of what the application offers, either none (keys and
/// offsets are the application's; always so with FI_RMA_EVENT) or direct_mr_mode, plus FI_MR_HMEM
/// with `hmem`. The modes of libfabric before 1.5 (FI_MR_BASIC, FI_MR_SCALABLE) are reported as
/// such. With `local` FI_MR_LOCAL is reported to those who offer it: consumers of device memory
/// register it, and pass descriptors, only then (HCL); it is never needed. -FI_ENODATA: FI_MR_HMEM
/// is needed and not offered, or the combination is invalid.
base::result<int> granted_mr_mode(std::uint32_t version, const fi_info* hints, bool hmem,
                                  bool local) noexcept;

/// The order to report over a core that keeps `cores`.
constexpr std::uint64_t granted_order(std::uint64_t cores, int mr_mode, bool hmem) noexcept {
  const bool direct = !hmem && (mr_mode & direct_mr_mode) == direct_mr_mode;
  return own_order | (direct ? cores & direct_order : 0);
}

/// Whether `hints` ask for nothing that is not offered; logs the first reason at info level
/// otherwise. Device presence, addresses, names and mr_mode are judged elsewhere. 0 or -FI_ENODATA.
base::result<void> check(const fi_info& hints, std::size_t unexpected_limit) noexcept;

}  // namespace gaudi::fi::offer
