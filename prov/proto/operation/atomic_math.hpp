// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>

#include <cstddef>

/// What atomic operations compute: datatypes and operations of fi_atomic(3).
namespace gaudi::proto::atomic_math {

/// Bytes of one element; 0 for a datatype that is not offered.
std::size_t size_of(fi_datatype type) noexcept;

/// Which of the three groups of calls an operation belongs to.
enum class call { plain, fetching, comparing };

/// Whether `op` on `type` is offered for this group: bitwise operations want integers, ordered
/// comparisons want no complex numbers, FI_ATOMIC_READ wants a result.
bool is_offered(fi_datatype type, fi_op op, call group) noexcept;

/// Applies an offered operation to `count` elements at `target`, with the operands (not looked at
/// by FI_ATOMIC_READ) and, for the comparing group, the values to compare with. The pointers need
/// no alignment.
void apply(fi_datatype type, fi_op op, void* target, const void* operands, const void* compares,
           std::size_t count) noexcept;

}  // namespace gaudi::proto::atomic_math
