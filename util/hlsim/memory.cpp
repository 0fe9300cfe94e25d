// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace hlsim {
namespace {

constexpr uint64_t host_page = 4096;
constexpr uint64_t huge_host_page = 2 << 20;

allocation* find_allocation(device_state& state, uint64_t handle) noexcept {
  if (handle == 0) return nullptr;
  for (allocation& a : state.allocations)
    if (a.handle == handle) return &a;
  return nullptr;
}

/// The first multiple of `unit` from `at` on.
constexpr uint64_t aligned(uint64_t at, uint64_t unit) noexcept {
  return (at + unit - 1) / unit * unit;
}

/// The first page, a multiple of `group`, of the smallest free block that holds `pages`; or
/// no_page.
uint32_t best_block(const device_state& state, uint32_t pages, uint32_t group) noexcept {
  uint32_t best = no_page, best_size = UINT32_MAX;
  for (uint32_t first = 0; first < state.pages; ++first) {
    uint32_t end = first;
    while (end < state.pages && state.page_owner[end] == no_page) ++end;
    const auto from = static_cast<uint32_t>(aligned(first, group));
    const uint32_t size = end - first;
    if (from + pages <= end && size < best_size) best = from, best_size = size;
    first = end;
  }
  return best;
}

uint32_t free_pages(const device_state& state) noexcept {
  return static_cast<uint32_t>(
      std::count(state.page_owner, state.page_owner + state.pages, no_page));
}

/// Whether the `group` pages from `first` on are there, and free.
bool is_free_group(const device_state& state, uint32_t first, uint32_t group) noexcept {
  return first + group <= state.pages &&
         std::all_of(state.page_owner + first, state.page_owner + first + group,
                     [](uint32_t owner) { return owner == no_page; });
}

bool has_free_groups(const device_state& state, uint32_t pages, uint32_t group) noexcept {
  for (uint32_t first = 0; pages > 0 && first < state.pages; first += group)
    if (is_free_group(state, first, group)) pages -= group;
  return pages == 0;
}

/// Chains `count` free pages from `from` on into allocation slot `slot`, by whole groups.
void take_pages(device_state& state, allocation& into, uint32_t from, uint32_t count,
                uint32_t group) noexcept {
  const auto slot = static_cast<uint32_t>(&into - state.allocations);
  uint32_t* link = &into.first_page;
  for (uint32_t first = from; count > 0; first += group) {
    if (!is_free_group(state, first, group)) continue;
    for (uint32_t page = first; page < first + group; ++page) {
      state.page_owner[page] = slot;
      *link = into.last_page = page;
      link = &state.next_page[page];
    }
    count -= group;
  }
  *link = no_page;
}

mapping* first_at_or_after(device_state& state, uint64_t va) noexcept {
  return std::lower_bound(state.mappings, state.mappings + state.mapping_count, va,
                          [](const mapping& m, uint64_t at) { return m.va < at; });
}

/// True when nothing is mapped in [va, va + size).
bool is_vacant(device_state& state, uint64_t va, uint64_t size) noexcept {
  const mapping* next = first_at_or_after(state, va);
  if (next != state.mappings + state.mapping_count && next->va - va < size) return false;
  if (next == state.mappings) return true;
  const mapping* before = std::prev(next);
  return va - before->va >= before->size;
}

/// The place for `size` bytes in the smallest gap of `range` that has one a multiple of `unit` from
/// `base`; 0 when there is none.
uint64_t best_gap(device_state& state, const va_range& range, uint64_t size, uint64_t unit,
                  uint64_t base) noexcept {
  uint64_t best = 0, best_size = UINT64_MAX, at = range.first;
  const auto consider = [&](uint64_t end) {
    const uint64_t from = base + aligned(at - base, unit);
    if (from <= end && end - from >= size && end - at < best_size)
      best = from, best_size = end - at;
  };
  const mapping* const last = state.mappings + state.mapping_count;
  for (const mapping* m = first_at_or_after(state, at); m != last && m->va < range.end; ++m) {
    consider(m->va);
    at = m->va + m->size;
  }
  consider(range.end);
  return best;
}

int insert(device_state& state, const mapping& m) noexcept {
  if (state.mapping_count == max_mappings) return -ENOMEM;
  mapping* at = first_at_or_after(state, m.va);
  std::copy_backward(at, state.mappings + state.mapping_count,
                     state.mappings + state.mapping_count + 1);
  *at = m;
  ++state.mapping_count;
  return 0;
}

bool device_hint_is_good(device_state& state, const model& m, uint64_t hint, uint64_t size,
                         uint64_t page) {
  const bool in_range = m.hbm_va.holds(hint, size) || m.hint_va.holds(hint, size);
  return in_range && (hint - m.physical_base) % page == 0 && is_vacant(state, hint, size);
}

/// A real driver asks whether the memory behind it is in pages of that size.
bool is_in_huge_pages(const model& m, uint64_t host, uint64_t size) {
  return m.host_va_huge.end != 0 && (host | size) % huge_host_page == 0;
}

}  // namespace

int allocate(device_state& state, uint64_t size, uint64_t page, bool contiguous, uint64_t& handle) {
  if (size == 0) return -EINVAL;
  const auto group = static_cast<uint32_t>(page / state.page_size);
  const uint64_t pages = (size / page + (size % page != 0)) * group;
  if (pages > free_pages(state)) return -ENOMEM;
  const auto count = static_cast<uint32_t>(pages);
  const uint32_t from = contiguous ? best_block(state, count, group) : 0;
  if (from == no_page || !has_free_groups(state, count, group)) return -ENOMEM;
  auto* const slot = std::find_if(std::begin(state.allocations), std::end(state.allocations),
                                  [](const allocation& a) { return a.handle == 0; });
  if (slot == std::end(state.allocations)) return -ENOMEM;
  slot->handle = ++state.last_handle;
  slot->pages = count;
  slot->alignment = page;
  take_pages(state, *slot, from, count, group);
  handle = slot->handle;
  return 0;
}

int free_allocation(device_state& state, uint64_t handle) {
  allocation* const a = find_allocation(state, handle);
  if (!a || a->maps != 0) return -EINVAL;
  for (uint32_t page = a->first_page; page != no_page; page = state.next_page[page])
    state.page_owner[page] = no_page;
  *a = {};
  return 0;
}

int map_device(device_state& state, const model& m, uint64_t handle, uint64_t hint, uint64_t& va) {
  allocation* const a = find_allocation(state, handle);
  if (!a) return -EINVAL;
  const uint64_t size = a->pages * state.page_size;
  va = device_hint_is_good(state, m, hint, size, a->alignment)
           ? hint
           : best_gap(state, m.hbm_va, size, a->alignment, m.physical_base);
  if (va == 0) return -ENOMEM;
  const int rc = insert(state, {va, size, va, handle, mapping_kind::hbm, 0});
  if (rc == 0) ++a->maps;
  return rc;
}

int map_host(device_state& state, const model& m, uint64_t host, uint64_t size, int pid,
             uint64_t hint, bool force_hint, uint64_t& va) {
  const uint64_t offset = host % host_page;
  const uint64_t bytes = (offset + size + host_page - 1) / host_page * host_page;
  const bool huge = is_in_huge_pages(m, host, size);
  const va_range& range = huge ? m.host_va_huge : m.host_va;
  const uint64_t unit = huge ? huge_host_page : host_page;
  const bool good =
      hint != 0 && hint % unit == 0 && range.holds(hint, bytes) && is_vacant(state, hint, bytes);
  if (!good && force_hint) return -ENOMEM;
  const uint64_t at = good ? hint : best_gap(state, range, bytes, unit, range.first);
  if (at == 0) return -ENOMEM;
  va = at + offset;
  return insert(state, {at, bytes, va, host - offset, mapping_kind::host, pid});
}

int unmap(device_state& state, uint64_t key) {
  const mapping* const found = find_key(state, key);
  if (!found) return -EINVAL;
  if (found->kind == mapping_kind::hbm) --find_allocation(state, found->target)->maps;
  mapping* const at = state.mappings + (found - state.mappings);
  std::copy(at + 1, state.mappings + state.mapping_count, at);
  --state.mapping_count;
  return 0;
}

const mapping* find_key(const device_state& state, uint64_t key) noexcept {
  const mapping* const m = find_address(state, key);
  return m && m->key == key ? m : nullptr;
}

const mapping* find_address(const device_state& state, uint64_t va) noexcept {
  const mapping* const next =
      std::upper_bound(state.mappings, state.mappings + state.mapping_count, va,
                       [](uint64_t at, const mapping& m) { return at < m.va; });
  if (next == state.mappings) return nullptr;
  const mapping* const m = std::prev(next);
  return va - m->va < m->size ? m : nullptr;
}

uint32_t page_of(const device_state& state, uint64_t handle, uint64_t n) noexcept {
  for (const allocation& a : state.allocations) {
    if (a.handle != handle) continue;
    if (a.last_page - a.first_page + 1 == a.pages)  // all neighbours, as they are in order
      return n < a.pages ? a.first_page + static_cast<uint32_t>(n) : no_page;
    uint32_t page = a.first_page;
    while (n-- > 0 && page != no_page) page = state.next_page[page];
    return page;
  }
  return no_page;
}

std::vector<page_run> runs_of(const device_state& state, uint64_t handle) {
  std::vector<page_run> runs;
  const auto* const a =
      std::find_if(std::begin(state.allocations), std::end(state.allocations),
                   [&](const allocation& one) { return handle != 0 && one.handle == handle; });
  if (a == std::end(state.allocations)) return runs;
  for (uint32_t page = a->first_page; page != no_page; page = state.next_page[page]) {
    const bool follows = !runs.empty() && runs.back().first + runs.back().pages == page;
    if (!follows) runs.push_back({page, 0});
    ++runs.back().pages;
  }
  return runs;
}

uint64_t free_bytes(const device_state& state) noexcept {
  return free_pages(state) * state.page_size - std::min(state.user_bytes, hbm_bytes(state));
}

uint64_t hbm_bytes(const device_state& state) noexcept {
  return state.pages * state.page_size;
}

int account_allocation(device_state& state, uint64_t size) {
  if (size == 0) return -EINVAL;
  state.user_bytes += size;
  return 0;
}

int account_free(device_state& state, uint64_t size) {
  state.user_bytes -= std::min(size, state.user_bytes);
  return 0;
}

}  // namespace hlsim
