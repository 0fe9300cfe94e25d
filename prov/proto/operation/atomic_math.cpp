// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/atomic_math.hpp"

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gaudi::proto::atomic_math {
namespace {

template <class T>
inline constexpr bool is_complex = false;
template <class T>
inline constexpr bool is_complex<std::complex<T>> = true;

template <class T>
struct tag {
  using type = T;
};

// No types of C++, but of both compilers.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;
template <class T>
constexpr bool is_integer =
    std::is_integral_v<T> || std::is_same_v<T, int128> || std::is_same_v<T, uint128>;

/// Calls `visit(tag<T>)` for the C++ type of a datatype. False: not offered.
template <class Visit>
bool with_type(fi_datatype type, Visit&& visit) {
  switch (type) {
    case FI_INT8:
      return visit(tag<std::int8_t>{}), true;
    case FI_UINT8:
      return visit(tag<std::uint8_t>{}), true;
    case FI_INT16:
      return visit(tag<std::int16_t>{}), true;
    case FI_UINT16:
      return visit(tag<std::uint16_t>{}), true;
    case FI_INT32:
      return visit(tag<std::int32_t>{}), true;
    case FI_UINT32:
      return visit(tag<std::uint32_t>{}), true;
    case FI_INT64:
      return visit(tag<std::int64_t>{}), true;
    case FI_UINT64:
      return visit(tag<std::uint64_t>{}), true;
    case FI_INT128:
      return visit(tag<int128>{}), true;
    case FI_UINT128:
      return visit(tag<uint128>{}), true;
    case FI_FLOAT:
      return visit(tag<float>{}), true;
    case FI_DOUBLE:
      return visit(tag<double>{}), true;
    case FI_FLOAT_COMPLEX:
      return visit(tag<std::complex<float>>{}), true;
    case FI_DOUBLE_COMPLEX:
      return visit(tag<std::complex<double>>{}), true;
    case FI_LONG_DOUBLE:
      return visit(tag<long double>{}), true;
    case FI_LONG_DOUBLE_COMPLEX:
      return visit(tag<std::complex<long double>>{}), true;
    default:
      return false;
  }
}

/// Integers wrap around; in C++ only the unsigned ones may.
template <class T>
T sum(T a, T b) {
  if constexpr (is_integer<T>) {
    return static_cast<T>(static_cast<uint128>(a) + static_cast<uint128>(b));
  } else {
    return a + b;
  }
}
template <class T>
T product(T a, T b) {
  if constexpr (is_integer<T>) {
    return static_cast<T>(static_cast<uint128>(a) * static_cast<uint128>(b));
  } else {
    return a * b;
  }
}

/// The operations that any type has.
template <class T>
bool any_type(fi_op op, T& value, T operand, T compare) {
  const T zero{};
  const bool a = value != zero, b = operand != zero;
  switch (op) {
    case FI_SUM:
      value = sum(value, operand);
      return true;
    case FI_PROD:
      value = product(value, operand);
      return true;
    case FI_LOR:
      value = static_cast<T>(a || b);
      return true;
    case FI_LAND:
      value = static_cast<T>(a && b);
      return true;
    case FI_LXOR:
      value = static_cast<T>(a != b);
      return true;
    case FI_ATOMIC_READ:
      return true;
    case FI_ATOMIC_WRITE:
      value = operand;
      return true;
    case FI_CSWAP:
      if (compare == value) value = operand;
      return true;
    case FI_CSWAP_NE:
      if (compare != value) value = operand;
      return true;
    default:
      return false;
  }
}

/// Those of numbers that have an order.
template <class T>
bool ordered_type(fi_op op, T& value, T operand, T compare) {
  const auto swap_if = [&](bool condition) {
    if (condition) value = operand;
    return true;
  };
  switch (op) {
    case FI_MIN:
      return swap_if(operand < value);
    case FI_MAX:
      return swap_if(operand > value);
    case FI_CSWAP_LE:
      return swap_if(compare <= value);
    case FI_CSWAP_LT:
      return swap_if(compare < value);
    case FI_CSWAP_GE:
      return swap_if(compare >= value);
    case FI_CSWAP_GT:
      return swap_if(compare > value);
    default:
      return false;
  }
}

/// Those of integers.
template <class T>
bool bitwise(fi_op op, T& value, T operand, T compare) {
  switch (op) {
    case FI_BOR:
      value = static_cast<T>(value | operand);
      return true;
    case FI_BAND:
      value = static_cast<T>(value & operand);
      return true;
    case FI_BXOR:
      value = static_cast<T>(value ^ operand);
      return true;
    case FI_MSWAP:
      value = static_cast<T>((operand & compare) | (value & ~compare));
      return true;
    default:
      return false;
  }
}

/// False: the type has no such operation.
template <class T>
bool compute(fi_op op, T& value, T operand, T compare) {
  if (any_type(op, value, operand, compare)) return true;
  if constexpr (!is_complex<T>) {
    if (ordered_type(op, value, operand, compare)) return true;
  }
  if constexpr (is_integer<T>) {
    if (bitwise(op, value, operand, compare)) return true;
  }
  return false;
}

bool compares(fi_op op) noexcept {
  return op >= FI_CSWAP && op <= FI_MSWAP;
}

template <class T>
T load(const void* from, std::size_t i) {
  T value{};
  if (from) std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::size_t size_of(fi_datatype type) noexcept {
  std::size_t size = 0;
  with_type(type, [&](auto t) { size = sizeof(typename decltype(t)::type); });
  return size;
}

bool is_offered(fi_datatype type, fi_op op, call group) noexcept {
  if (compares(op) != (group == call::comparing)) return false;
  if (op == FI_ATOMIC_READ && group != call::fetching) return false;
  bool offered = false;
  with_type(type, [&](auto t) {
    typename decltype(t)::type probe{};
    offered = compute(op, probe, probe, probe);
  });
  return offered;
}

void apply(fi_datatype type, fi_op op, void* target, const void* operands, const void* compares,
           std::size_t count) noexcept {
  with_type(type, [&](auto t) {
    using T = typename decltype(t)::type;
    for (std::size_t i = 0; i < count; ++i) {
      T value = load<T>(target, i);
      compute(op, value, load<T>(operands, i), load<T>(compares, i));
      std::memcpy(static_cast<std::byte*>(target) + i * sizeof(T), &value, sizeof(T));
    }
  });
}

}  // namespace gaudi::proto::atomic_math
