// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace hlsim {
namespace {

constexpr uint64_t host_page = 4096;

allocation* find_allocation(device_state& state, uint64_t handle) noexcept {
  if (handle == 0) return nullptr;
  for (allocation& a : state.allocations)
    if (a.handle == handle) return &a;
  return nullptr;
}

/// The first page of the smallest free block that holds `pages`, or no_page.
uint32_t best_block(const device_state& state, uint32_t pages) noexcept {
  uint32_t best = no_page, best_size = UINT32_MAX;
  for (uint32_t first = 0; first < state.pages; ++first) {
    uint32_t end = first;
    while (end < state.pages && state.page_owner[end] == no_page) ++end;
    const uint32_t size = end - first;
    if (size >= pages && size < best_size) best = first, best_size = size;
    first = end;
  }
  return best;
}

uint32_t free_pages(const device_state& state) noexcept {
  return static_cast<uint32_t>(
      std::count(state.page_owner, state.page_owner + state.pages, no_page));
}

/// Chains `count` free pages from `from` on into allocation slot `slot`.
uint32_t take_pages(device_state& state, uint32_t from, uint32_t count, uint32_t slot) noexcept {
  uint32_t first = no_page;
  uint32_t* link = &first;
  for (uint32_t page = from; count > 0; ++page) {
    if (state.page_owner[page] != no_page) continue;
    state.page_owner[page] = slot;
    *link = page;
    link = &state.next_page[page];
    --count;
  }
  *link = no_page;
  return first;
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

/// The start of the smallest gap of `range` that holds `size`, 0 when there is none.
uint64_t best_gap(device_state& state, const va_range& range, uint64_t size) noexcept {
  uint64_t best = 0, best_size = UINT64_MAX, at = range.first;
  const auto consider = [&](uint64_t end) {
    const uint64_t gap = end - at;
    if (gap >= size && gap < best_size) best = at, best_size = gap;
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
  if (state.mapping_count == most_mappings) return -ENOMEM;
  mapping* at = first_at_or_after(state, m.va);
  std::copy_backward(at, state.mappings + state.mapping_count,
                     state.mappings + state.mapping_count + 1);
  *at = m;
  ++state.mapping_count;
  return 0;
}

bool device_hint_is_good(device_state& state, const model& m, uint64_t hint, uint64_t size) {
  const bool in_range = m.hbm_va.holds(hint, size) || m.hint_va.holds(hint, size);
  return in_range && (hint - m.physical_base) % state.page_size == 0 &&
         is_vacant(state, hint, size);
}

}  // namespace

int allocate(device_state& state, uint64_t size, bool contiguous, uint64_t& handle) {
  if (size == 0) return -EINVAL;
  const uint64_t pages = size / state.page_size + (size % state.page_size != 0);
  if (pages > free_pages(state)) return -ENOMEM;
  const auto count = static_cast<uint32_t>(pages);
  const uint32_t from = contiguous ? best_block(state, count) : 0;
  if (from == no_page) return -ENOMEM;
  auto* const slot = std::find_if(std::begin(state.allocations), std::end(state.allocations),
                                  [](const allocation& a) { return a.handle == 0; });
  const auto number = static_cast<uint32_t>(slot - state.allocations);
  *slot = {++state.last_handle, take_pages(state, from, count, number), count, 0};
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
  va = device_hint_is_good(state, m, hint, size) ? hint : best_gap(state, m.hbm_va, size);
  if (va == 0) return -ENOMEM;
  const int rc = insert(state, {va, size, va, handle, mapping_kind::hbm, 0});
  if (rc == 0) ++a->maps;
  return rc;
}

int map_host(device_state& state, const model& m, uint64_t host, uint64_t size, int pid,
             uint64_t hint, bool force_hint, uint64_t& va) {
  const uint64_t offset = host % host_page;
  const uint64_t bytes = (offset + size + host_page - 1) / host_page * host_page;
  const bool good = hint != 0 && hint % host_page == 0 && m.host_va.holds(hint, bytes) &&
                    is_vacant(state, hint, bytes);
  if (!good && force_hint) return -ENOMEM;
  const uint64_t at = good ? hint : best_gap(state, m.host_va, bytes);
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
    uint32_t page = a.first_page;
    while (n-- > 0 && page != no_page) page = state.next_page[page];
    return page;
  }
  return no_page;
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
