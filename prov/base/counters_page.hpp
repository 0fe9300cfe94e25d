// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

#include "base/counters_layout.hpp"
#include "base/mutex.hpp"
#include "base/process_page.hpp"

namespace gaudi::base::counters {

/// What a block is about, see block_header.
struct subject {
  block_kind kind;
  std::string_view name;
  std::string_view detail;
  std::int32_t number = -1;
};

/// The process's counters page, in a memfd that its user and root can open in /proc/PID/fd. The
/// kernel ends it with the process, however that ends. A child of fork has a page of its own and
/// leaves its parent's alone. Any thread.
class page {
 public:
  /// The process's, made at first use; FI_GAUDI_COUNTERS=off: one that nobody sees.
  static page& instance();

  /// Where it cannot be made, one line of log says why, and take() gives nothing.
  explicit page(bool published);
  /// For tests: the process's lives as long as the process. All blocks were given back.
  ~page() = default;
  page(const page&) = delete;
  page& operator=(const page&) = delete;

  /// A block with all values 0. Null: there is no page, or no free block in it.
  block* take(const subject& about) noexcept;
  /// Its values are added to those of other closed ones of that name, levels are not.
  void give_back(block& done) noexcept;

  /// Null: there is none.
  [[nodiscard]] const page_header* header() const noexcept { return header_; }
  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

 private:
  class change;
  void describe() noexcept;
  block* find(block_kind kind, const block* same_name) noexcept GAUDI_REQUIRES(mutex_);

  const unsigned generation_;
  base::mutex mutex_;
  process_page memory_;
  page_header* header_ = nullptr;
  block* blocks_ GAUDI_PT_GUARDED_BY(mutex_) = nullptr;
};

/// Whether the process has a page that others see.
bool are_published();

/// A block of a page for as long as this lives; where none is to be had, memory that nobody sees.
class block_owner {
 public:
  /// Throws std::bad_alloc.
  block_owner(const subject& about, page& in);
  ~block_owner();
  block_owner(const block_owner&) = delete;
  block_owner& operator=(const block_owner&) = delete;

  [[nodiscard]] std::uint64_t* values() noexcept { return block_->values.data(); }

 private:
  page& page_;
  block* block_;
  std::unique_ptr<block> unseen_;
};

/// Counters that are where others can see them: of a type of 64-bit numbers only, whose order is
/// that of counter_names.hpp.
template <class Counters>
class published {
 public:
  /// Throws std::bad_alloc.
  explicit published(const subject& about, page& in = page::instance())
      : block_(about, in), counters_(*new (block_.values()) Counters{}) {}

  Counters& operator*() noexcept { return counters_; }
  const Counters& operator*() const noexcept { return counters_; }
  Counters* operator->() noexcept { return &counters_; }
  const Counters* operator->() const noexcept { return &counters_; }

 private:
  static_assert(std::is_standard_layout_v<Counters> && std::is_trivially_destructible_v<Counters>);
  static_assert(sizeof(Counters) / sizeof(std::uint64_t) <= max_values);
  static_assert(alignof(Counters) <= 64);

  block_owner block_;
  Counters& counters_;
};

}  // namespace gaudi::base::counters
