// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Every datatype and operation against values worked out here in another way.
#include "proto/operation/atomic_math.hpp"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace gaudi::proto::atomic_math {
namespace {

constexpr fi_op plain_ops[] = {FI_MIN, FI_MAX,  FI_SUM,  FI_PROD, FI_LOR,         FI_LAND,
                               FI_BOR, FI_BAND, FI_LXOR, FI_BXOR, FI_ATOMIC_WRITE};
constexpr fi_op comparing_ops[] = {FI_CSWAP,    FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT,
                                   FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP};

/// One element through apply(), at an odd address.
template <class T>
T applied(fi_datatype type, fi_op op, T value, T operand, T compare) {
  std::vector<char> bytes(3 * sizeof(T) + 1);
  char* const at = bytes.data() + 1;
  std::memcpy(at, &value, sizeof value);
  std::memcpy(at + sizeof(T), &operand, sizeof operand);
  std::memcpy(at + 2 * sizeof(T), &compare, sizeof compare);
  apply(type, op, at, at + sizeof(T), at + 2 * sizeof(T), 1);
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
T logical(bool condition) {
  return condition ? T(1) : T(0);
}

/// Neighbours, without the overflow that signed integers must not have.
template <class T>
T next(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + 1);
  } else {
    return a + T(1);
  }
}
template <class T>
T previous(T a) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) - 1);
  } else {
    return a - T(1);
  }
}

template <class T>
void expect_common(fi_datatype type, T a, T b) {
  const T zero(0);
  EXPECT_EQ(applied<T>(type, FI_LOR, a, b, zero), logical<T>(a != zero || b != zero));
  EXPECT_EQ(applied<T>(type, FI_LAND, a, b, zero), logical<T>(a != zero && b != zero));
  EXPECT_EQ(applied<T>(type, FI_LXOR, a, b, zero), logical<T>((a != zero) != (b != zero)));
  EXPECT_EQ(applied<T>(type, FI_ATOMIC_WRITE, a, b, zero), b);
  EXPECT_EQ(applied<T>(type, FI_ATOMIC_READ, a, b, zero), a);
  EXPECT_EQ(applied<T>(type, FI_CSWAP, a, b, a), b);
  EXPECT_EQ(applied<T>(type, FI_CSWAP, a, b, next(a)), a);
  EXPECT_EQ(applied<T>(type, FI_CSWAP_NE, a, b, a), a);
  EXPECT_EQ(applied<T>(type, FI_CSWAP_NE, a, b, next(a)), b);
}

template <class T>
void expect_ordered(fi_datatype type, T a, T b) {
  EXPECT_EQ(applied<T>(type, FI_MIN, a, b, T(0)), std::min(a, b));
  EXPECT_EQ(applied<T>(type, FI_MAX, a, b, T(0)), std::max(a, b));
  for (const T compare : {a, next(a), previous(a)}) {
    EXPECT_EQ(applied<T>(type, FI_CSWAP_LE, a, b, compare), compare <= a ? b : a);
    EXPECT_EQ(applied<T>(type, FI_CSWAP_LT, a, b, compare), compare < a ? b : a);
    EXPECT_EQ(applied<T>(type, FI_CSWAP_GE, a, b, compare), compare >= a ? b : a);
    EXPECT_EQ(applied<T>(type, FI_CSWAP_GT, a, b, compare), compare > a ? b : a);
  }
}

template <class T>
void expect_integers(fi_datatype type) {
  for (const T a :
       {T(0), T(1), T(5), T(100), std::numeric_limits<T>::max(), std::numeric_limits<T>::min()}) {
    for (const T b : {T(0), T(3), T(100), std::numeric_limits<T>::max()}) {
      expect_common<T>(type, a, b);
      expect_ordered<T>(type, a, b);
      EXPECT_EQ(applied<T>(type, FI_SUM, a, b, T(0)), T(std::uint64_t(a) + std::uint64_t(b)));
      EXPECT_EQ(applied<T>(type, FI_PROD, a, b, T(0)), T(std::uint64_t(a) * std::uint64_t(b)));
      EXPECT_EQ(applied<T>(type, FI_BOR, a, b, T(0)), T(a | b));
      EXPECT_EQ(applied<T>(type, FI_BAND, a, b, T(0)), T(a & b));
      EXPECT_EQ(applied<T>(type, FI_BXOR, a, b, T(0)), T(a ^ b));
      EXPECT_EQ(applied<T>(type, FI_MSWAP, a, b, T(0x0f)), T((a & T(~0x0f)) | (b & 0x0f)));
    }
  }
}

template <class T>
void expect_reals(fi_datatype type) {
  for (const T a : {T(0), T(1.5), T(-7), T(1e6)}) {
    for (const T b : {T(0), T(-2.25), T(3e7)}) {
      expect_common<T>(type, a, b);
      expect_ordered<T>(type, a, b);
      EXPECT_EQ(applied<T>(type, FI_SUM, a, b, T(0)), T(a + b));
      EXPECT_EQ(applied<T>(type, FI_PROD, a, b, T(0)), T(a * b));
    }
  }
}

template <class T>
void expect_complex(fi_datatype type) {
  using C = std::complex<T>;
  const C a(1.5, -2), b(-4, 0.5);
  expect_common<C>(type, a, b);
  expect_common<C>(type, a, C(0));
  EXPECT_EQ(applied<C>(type, FI_SUM, a, b, C(0)), C(-2.5, -1.5));
  EXPECT_EQ(applied<C>(type, FI_PROD, a, b, C(0)), C(-5, 8.75));
}

TEST(atomic_math, integers) {
  expect_integers<std::int8_t>(FI_INT8);
  expect_integers<std::uint8_t>(FI_UINT8);
  expect_integers<std::int16_t>(FI_INT16);
  expect_integers<std::uint16_t>(FI_UINT16);
  expect_integers<std::int32_t>(FI_INT32);
  expect_integers<std::uint32_t>(FI_UINT32);
  expect_integers<std::int64_t>(FI_INT64);
  expect_integers<std::uint64_t>(FI_UINT64);
}

TEST(atomic_math, reals) {
  expect_reals<float>(FI_FLOAT);
  expect_reals<double>(FI_DOUBLE);
  expect_reals<long double>(FI_LONG_DOUBLE);
}

// Not by the templates above, whose arithmetic has 64 bits: by its halves.
TEST(atomic_math, integers_of_128_bits) {
  __extension__ using wide = unsigned __int128;
  __extension__ using narrow = __int128;
  const auto of = [](std::uint64_t high, std::uint64_t low) { return wide{high} << 64 | low; };
  const auto all = std::numeric_limits<std::uint64_t>::max();
  const auto check = [](fi_op op, wide value, wide operand, wide compare, wide expected) {
    EXPECT_TRUE(applied<wide>(FI_UINT128, op, value, operand, compare) == expected) << op;
  };
  check(FI_SUM, of(1, all), of(2, 1), 0, of(4, 0));
  check(FI_SUM, of(all, all), 1, 0, 0);
  check(FI_PROD, of(0, std::uint64_t{1} << 63), 4, 0, of(2, 0));
  check(FI_MAX, of(1, 0), of(0, all), 0, of(1, 0));
  check(FI_BXOR, of(5, 3), of(4, 3), 0, of(1, 0));
  check(FI_CSWAP, of(7, 8), of(1, 2), of(7, 8), of(1, 2));
  check(FI_CSWAP, of(7, 8), of(1, 2), of(6, 8), of(7, 8));
  check(FI_MSWAP, of(0xf0, 1), of(0x0f, 2), of(0xff, 0), of(0x0f, 1));
  EXPECT_TRUE(applied<narrow>(FI_INT128, FI_MIN, 5, -6, 0) == -6);
  EXPECT_TRUE(applied<narrow>(FI_INT128, FI_SUM, -1, -1, 0) == -2);
  EXPECT_TRUE(is_offered(FI_INT128, FI_BOR, call::fetching));
  EXPECT_EQ(size_of(FI_INT128), 16U);
}

TEST(atomic_math, complex_numbers) {
  expect_complex<float>(FI_FLOAT_COMPLEX);
  expect_complex<double>(FI_DOUBLE_COMPLEX);
  expect_complex<long double>(FI_LONG_DOUBLE_COMPLEX);
}

TEST(atomic_math, arrays_element_by_element) {
  std::int32_t target[] = {1, 2, 3}, operands[] = {10, 20, 30};
  apply(FI_INT32, FI_SUM, target, operands, nullptr, 3);
  EXPECT_EQ(target[0], 11);
  EXPECT_EQ(target[1], 22);
  EXPECT_EQ(target[2], 33);
}

TEST(atomic_math, offers_what_has_a_meaning) {
  for (const fi_op op : plain_ops) {
    EXPECT_TRUE(is_offered(FI_INT32, op, call::plain)) << op;
    EXPECT_TRUE(is_offered(FI_INT32, op, call::fetching)) << op;
    EXPECT_FALSE(is_offered(FI_INT32, op, call::comparing)) << op;
    const bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR;
    const bool order = op == FI_MIN || op == FI_MAX;
    EXPECT_EQ(is_offered(FI_DOUBLE, op, call::plain), !bits) << op;
    EXPECT_EQ(is_offered(FI_DOUBLE_COMPLEX, op, call::plain), !bits && !order) << op;
  }
  for (const fi_op op : comparing_ops) {
    EXPECT_TRUE(is_offered(FI_UINT64, op, call::comparing)) << op;
    EXPECT_FALSE(is_offered(FI_UINT64, op, call::plain)) << op;
    EXPECT_FALSE(is_offered(FI_UINT64, op, call::fetching)) << op;
    EXPECT_EQ(is_offered(FI_FLOAT, op, call::comparing), op != FI_MSWAP) << op;
    EXPECT_EQ(is_offered(FI_FLOAT_COMPLEX, op, call::comparing),
              op == FI_CSWAP || op == FI_CSWAP_NE)
        << op;
  }
  EXPECT_TRUE(is_offered(FI_INT8, FI_ATOMIC_READ, call::fetching));
  EXPECT_FALSE(is_offered(FI_INT8, FI_ATOMIC_READ, call::plain));
  EXPECT_FALSE(is_offered(static_cast<fi_datatype>(99), FI_SUM, call::plain));
  EXPECT_FALSE(is_offered(FI_INT8, static_cast<fi_op>(99), call::plain));
  EXPECT_EQ(size_of(static_cast<fi_datatype>(99)), 0U);
  EXPECT_EQ(size_of(FI_LONG_DOUBLE_COMPLEX), 2 * sizeof(long double));
}

}  // namespace
}  // namespace gaudi::proto::atomic_math
