// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "mover.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "memory.hpp"

namespace hlsim {
namespace {

constexpr uint64_t bounce_bytes = 256 << 10;  // stays in the second-level cache

/// What the engine reads from host pages that are gone. Real pins would have kept them.
constexpr int poison = 0xDB;

char* bounce() {
  thread_local std::vector<char> buffer(bounce_bytes);
  return buffer.data();
}

void warn_once(const model& m, const char* what) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true))
    std::fprintf(stderr, "hlsim: %s: %s (%s); the transfer is incomplete\n", m.description, what,
                 std::strerror(errno));
}

constexpr const char* unmapped = "DMA touched host memory that its process has unmapped";

using process_copy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                                 unsigned long);

bool copy_process(process_copy call, int pid, uint64_t remote, void* local, uint64_t size) {
  iovec here{local, size};
  iovec there{reinterpret_cast<void*>(remote), size};
  return call(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

}  // namespace

mover::piece mover::translate(uint64_t va, uint64_t size) const {
  const state_lock lock(state_);
  if (model_.sram.holds(va, 1)) {
    const uint64_t offset = va - model_.sram.first;
    return {false, 0, hbm_bytes(state_) + offset, std::min(size, model_.sram.end - va)};
  }
  const va_range physical = model_.physical_range(hbm_bytes(state_));
  if (model_.physical_hbm && physical.holds(va, 1))
    return {false, 0, va - physical.first, std::min(size, physical.end - va)};
  const mapping* const m = find_address(state_, va);
  if (!m) return {};
  const uint64_t offset = va - m->va;
  if (m->kind == mapping_kind::host)
    return {true, m->pid, m->target + offset, std::min(size, m->size - offset)};
  const uint64_t in_page = offset % state_.page_size;
  const uint64_t page = page_of(state_, m->target, offset / state_.page_size);
  return {false, 0, page * state_.page_size + in_page, std::min(size, state_.page_size - in_page)};
}

bool mover::is_host(uint64_t va) const noexcept {
  return model_.is_host(va);
}

bool mover::is_mapped(uint64_t va) const {
  return translate(va, 1).size != 0;
}

direction mover::direction_of(uint64_t source, uint64_t destination) const noexcept {
  if (is_host(source)) return direction::h2d;
  return is_host(destination) ? direction::d2h : direction::d2d;
}

bool mover::copy(uint64_t source, uint64_t destination, uint64_t size) const {
  while (size > 0) {
    const piece from = translate(source, size);
    const piece to = translate(destination, size);
    const uint64_t n = std::min(from.size, to.size);
    if (n == 0) return false;
    if (!move(from, to, n)) return false;
    source += n, destination += n, size -= n;
  }
  return true;
}

bool mover::fill(uint64_t destination, uint64_t size, uint32_t pattern) const {
  char* const buffer = bounce();
  for (uint64_t at = 0; at < bounce_bytes; at += sizeof pattern)
    std::memcpy(buffer + at, &pattern, sizeof pattern);
  for (uint64_t done = 0; size > 0;) {
    const piece to = translate(destination, std::min(size, bounce_bytes - sizeof pattern));
    if (to.size == 0) return false;
    if (!store(to, 0, buffer + done % sizeof pattern, to.size)) return false;
    destination += to.size, size -= to.size, done += to.size;
  }
  return true;
}

bool mover::fetch(uint64_t source, void* out, uint64_t size) const {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const piece from = translate(source, size);
    if (from.size == 0) return false;
    if (!load(from, 0, at, from.size)) return false;
    at += from.size, source += from.size, size -= from.size;
  }
  return true;
}

/// Between this process and HBM the kernel copies once, straight from the user's pages; it answers
/// EFAULT where a memcpy would die.
bool mover::move(const piece& from, const piece& to, uint64_t size) const {
  const int self = ::getpid();
  void* const to_host = reinterpret_cast<void*>(to.at);
  void* const from_host = reinterpret_cast<void*>(from.at);
  if (!from.host && to.host && to.pid == self) return load(from, 0, to_host, size);
  if (from.host && from.pid == self && !to.host) return store(to, 0, from_host, size);
  for (uint64_t done = 0; done < size;) {
    const uint64_t n = std::min(size - done, bounce_bytes);
    if (!load(from, done, bounce(), n) || !store(to, done, bounce(), n)) return false;
    done += n;
  }
  return true;
}

// HBM is read and written by the user's own pages, too, which may be gone: that is the only failure
// of these calls that a device does not have.
bool mover::load(const piece& from, uint64_t skip, void* out, uint64_t size) const {
  const bool ok = from.host ? copy_process(::process_vm_readv, from.pid, from.at + skip, out, size)
                            : hbm_.read(from.at + skip, out, size);
  if (ok) return true;
  if (!from.host && errno != EFAULT) return lost_hbm();
  warn_once(model_, unmapped);
  if (from.host) std::memset(out, poison, size);
  return true;
}

bool mover::store(const piece& to, uint64_t skip, const void* in, uint64_t size) const {
  void* const source = const_cast<void*>(in);  // an iovec has no const form
  const bool ok = to.host ? copy_process(::process_vm_writev, to.pid, to.at + skip, source, size)
                          : hbm_.write(to.at + skip, in, size);
  if (ok) return true;
  if (!to.host && errno != EFAULT) return lost_hbm();
  warn_once(model_, unmapped);
  return true;
}

bool mover::lost_hbm() const {
  warn_once(model_, "the machine has no memory left for simulated HBM");
  return false;
}

}  // namespace hlsim
