// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/outstanding_page.hpp"

#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "base/log.hpp"
#include "base/params.hpp"
#include "base/per_process.hpp"

namespace gaudi::base::outstanding {
namespace {

// The records of a kind stand together, in whole words of the map of free ones.
struct range {
  std::size_t begin;
  std::size_t end;
};
constexpr range range_of(record_kind kind) noexcept {
  constexpr std::size_t connections = max_operations;
  constexpr std::size_t endpoints = connections + max_connections;
  constexpr std::size_t calls = endpoints + max_endpoints;
  if (kind == record_kind::operation) return {0, connections};
  if (kind == record_kind::connection) return {connections, endpoints};
  if (kind == record_kind::endpoint) return {endpoints, calls};
  return {calls, record_count};
}
static_assert(max_operations % 64 == 0 && max_connections % 64 == 0 && max_endpoints % 64 == 0 &&
              max_calls % 64 == 0);

struct own_page : page {
  own_page() : page(params::get().counters) {}
};

constexpr std::size_t value_begin = sizeof(record::sequence);

void replace(record& all, const record& value) noexcept {
  change_record(all, [&value](record& r) {
    std::memcpy(reinterpret_cast<std::byte*>(&r) + value_begin,
                reinterpret_cast<const std::byte*>(&value) + value_begin,
                sizeof(record) - value_begin);
  });
}

}  // namespace

page& page::instance() {
  return per_process<own_page>::get();
}

page::page(bool published) {
  if (!published) return;
  if (const int ret = memory_.map(page_name, page_size); ret != 0) {
    GAUDI_INFO(CORE, "others cannot see what this process waits for, no page: %s\n",
               std::strerror(-ret));
    return;
  }
  header_ = new (memory_.at()) page_header{};
  // All 0 as it is, and what is never used takes no memory.
  records_ = reinterpret_cast<record*>(static_cast<std::byte*>(memory_.at()) + header_size);
  for (auto& word : free_) word.store(~std::uint64_t{0}, std::memory_order_relaxed);
  describe();
}

void page::describe() noexcept {
  page_header& h = *header_;
  const process_identity own = identity_of_this_process();
  h.magic = magic;
  h.header_size = header_size;
  h.page_size = page_size;
  h.record_size = sizeof(record);
  h.record_count = record_count;
  h.pid = own.pid;
  h.start_time = own.start_time;
  h.command = own.command;
  h.release = own.release;
  // Last: a reader that sees it sees all of the above.
  std::atomic_ref(h.version).store(version, std::memory_order_release);
}

record* page::take(record_kind kind) noexcept {
  const auto [begin, end] = range_of(kind);
  for (std::size_t i = begin / bits; i < end / bits; ++i) {
    std::uint64_t word = free_[i].load(std::memory_order_relaxed);
    while (word != 0) {
      const std::uint64_t rest = word & (word - 1);
      if (!free_[i].compare_exchange_weak(word, rest, std::memory_order_acquire)) continue;
      record& taken = records_[i * bits + static_cast<std::size_t>(std::countr_zero(word))];
      // All else is 0, as it was given back.
      std::atomic_ref(taken.kind).store(kind, std::memory_order_relaxed);
      return &taken;
    }
  }
  return nullptr;
}

void page::give_back(record& done) noexcept {
  // The parent's, which still has it. What a child of fork destroys is of the parent's page.
  if (!records_ || std::less<>()(&done, records_) || !std::less<>()(&done, records_ + record_count))
    return;
  replace(done, record{});
  const std::size_t place = place_of(done);
  free_[place / bits].fetch_or(std::uint64_t{1} << (place % bits), std::memory_order_release);
}

void record_owner::write(record value) noexcept {
  value.kind = record_->kind;
  replace(*record_, value);
}

void record_owner::give_back() noexcept {
  page::instance().give_back(*std::exchange(record_, nullptr));
}

}  // namespace gaudi::base::outstanding
