// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/outstanding_layout.hpp"
#include "base/process_page.hpp"

namespace gaudi::base::outstanding {

/// The process's page of outstanding operations, which others read without its help. A child of
/// fork has a page of its own and leaves its parent's alone. Any thread, without a lock.
class page {
 public:
  /// The process's, made at first use; FI_GAUDI_COUNTERS=off: one without records.
  static page& instance();

  /// Where it cannot be made, one line of log says why, and there are no records.
  explicit page(bool published);
  page(const page&) = delete;
  page& operator=(const page&) = delete;

  /// A free record of that kind, which nobody else is given. Null: there is none.
  record* take(record_kind kind) noexcept;
  /// One of another page's, as that of the parent of a fork, is left alone.
  void give_back(record& done) noexcept;

  /// Its number, by which other records name it.
  [[nodiscard]] std::uint32_t place_of(const record& r) const noexcept {
    return static_cast<std::uint32_t>(&r - records_);
  }
  /// Null: there is none.
  [[nodiscard]] const page_header* header() const noexcept { return header_; }
  [[nodiscard]] int fd() const noexcept { return memory_.fd(); }

 private:
  void describe() noexcept;

  static constexpr std::size_t bits = 64;

  process_page memory_;
  page_header* header_ = nullptr;
  record* records_ = nullptr;
  std::array<std::atomic<std::uint64_t>, record_count / bits> free_{};
};

/// Calls `fill` with `r`, to be changed but for its sequence number: a reader sees what was there
/// before, or what it left.
template <class Fill>
void change_record(record& r, Fill&& fill) noexcept {
  const std::atomic_ref sequence(r.sequence);
  // Read and written in one instruction, behind which later writes stay on x86-64, the only
  // machines with Gaudis.
  const std::uint32_t before = sequence.fetch_add(1, std::memory_order_seq_cst);
  std::forward<Fill>(fill)(r);
  sequence.store(before + 2, std::memory_order_release);
}

/// A record of the process's page for as long as this lives, or none. Whoever has it writes it
/// alone.
class record_owner {
 public:
  record_owner() = default;
  /// Without one where the page has none left. The first one of a process throws std::bad_alloc
  /// where there is no memory for the page.
  explicit record_owner(record_kind kind) : record_(page::instance().take(kind)) {}
  record_owner(record_owner&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  record_owner& operator=(record_owner&& other) noexcept {
    if (this == &other) return *this;
    reset();
    record_ = std::exchange(other.record_, nullptr);
    return *this;
  }
  ~record_owner() { reset(); }

  explicit operator bool() const noexcept { return record_ != nullptr; }
  void reset() noexcept {
    if (record_) [[unlikely]]
      give_back();
  }
  /// Needs one, as does write().
  [[nodiscard]] std::uint32_t place() const noexcept { return page::instance().place_of(*record_); }
  /// When the record says that it began; 0: it was not written yet.
  [[nodiscard]] std::uint64_t since() const noexcept { return record_->since; }
  /// All of it but sequence and kind. A reader sees what was there before, or this.
  void write(record value) noexcept;
  /// change_record() of it; its kind stays too.
  template <class Fill>
  void change(Fill&& fill) noexcept {
    change_record(*record_, std::forward<Fill>(fill));
  }
  /// Nothing is outstanding that it tells of: readers pass it over until it is written again.
  void clear() noexcept {
    change([](record& r) { r.since = 0; });
  }

 private:
  void give_back() noexcept;

  record* record_ = nullptr;
};

}  // namespace gaudi::base::outstanding
