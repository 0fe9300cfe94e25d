// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cassert>
#include <optional>
#include <utility>

namespace gaudi::base {

/// A libfabric error code, always negative (-FI_EINVAL, ...). Exists so that `result<int>` is
/// unambiguous.
struct error {
  int code;
};

/// A value or a libfabric error code. Nothing in the provider throws across a room; a function that
/// can fail returns a result, and `fi` turns it into the int that libfabric expects.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}            // NOLINT(google-explicit-constructor)
  result(error e) : code_(e.code) { assert(e.code < 0); }  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return value_.has_value(); }
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

  /// 0 when there is a value, else the negative error code.
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] error failure() const noexcept { return error{code_}; }

 private:
  std::optional<T> value_;
  int code_ = 0;
};

/// Success or a libfabric error code.
template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;
  result(error e) : code_(e.code) { assert(e.code < 0); }  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return code_ == 0; }
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] error failure() const noexcept { return error{code_}; }

 private:
  int code_ = 0;
};

}  // namespace gaudi::base
