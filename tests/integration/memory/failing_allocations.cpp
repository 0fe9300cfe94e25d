// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "failing_allocations.hpp"

#include <execinfo.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "live_blocks.hpp"

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);
}

namespace gaudi::test {
namespace {

struct range {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool has(const void* at) const noexcept {
    const auto a = reinterpret_cast<std::uintptr_t>(at);
    return a >= first && a < end;
  }
};

constinit live_blocks live;
range provider;
range cxx_library;
range own;
std::atomic<std::size_t> to_fail{0};
std::atomic<std::size_t> counted{0};

range range_of(const dl_phdr_info& info) {
  range found{UINTPTR_MAX, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t first = info.dlpi_addr + part.p_vaddr;
    found.first = first < found.first ? first : found.first;
    found.end = first + part.p_memsz > found.end ? first + part.p_memsz : found.end;
  }
  return found;
}

int note_library(dl_phdr_info* info, std::size_t, void*) {
  const std::string_view name = info->dlpi_name;
  if (name.empty()) own = range_of(*info);
  if (name.find("libgaudi-fi.so") != std::string_view::npos) provider = range_of(*info);
  if (name.find("libstdc++.so") != std::string_view::npos) cxx_library = range_of(*info);
  return 0;
}

// Who asked: the first one on the stack that is neither this program nor the C++ library. Null: not
// the provider.
[[gnu::noinline]] const void* place_in_provider(const void* caller) noexcept {
  if (provider.has(caller)) return caller;
  if (!cxx_library.has(caller)) return nullptr;
  static thread_local bool looks = false;
  if (looks) return nullptr;
  looks = true;
  std::array<void*, 12> stack{};
  const int depth = ::backtrace(stack.data(), static_cast<int>(stack.size()));
  looks = false;
  for (int i = 0; i < depth; ++i) {
    if (own.has(stack[i]) || cxx_library.has(stack[i])) continue;
    return provider.has(stack[i]) ? stack[i] : nullptr;
  }
  return nullptr;
}

bool is_to_fail() noexcept {
  if (++counted != to_fail) return false;
  if (std::getenv("MEMORY_SWEEP_TRACE")) {
    std::array<void*, 24> stack{};
    const int depth = ::backtrace(stack.data(), static_cast<int>(stack.size()));
    ::backtrace_symbols_fd(stack.data(), depth, 2);
  }
  return true;
}

}  // namespace

bool find_provider() {
  std::array<void*, 4> warm_up{};
  ::backtrace(warm_up.data(), static_cast<int>(warm_up.size()));  // loads what it needs
  ::dl_iterate_phdr(&note_library, nullptr);
  return provider.end != 0;
}

void fail_allocation(std::size_t n) noexcept {
  counted = 0;
  to_fail = n;
}

std::size_t count_allocations() noexcept {
  return counted;
}

std::map<std::uintptr_t, std::size_t> live_allocations() {
  std::map<std::uintptr_t, std::size_t> found;
  live.for_each([&](const void* place) {
    ++found[reinterpret_cast<std::uintptr_t>(place) - provider.first];
  });
  return found;
}

namespace {

/// What `make` returns, or null where this allocation is the one to fail.
template <class Make>
void* allocate(const void* caller, Make&& make) noexcept {
  const void* const place = provider.end ? place_in_provider(caller) : nullptr;
  if (place && is_to_fail()) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const block = make();
  if (place && block) live.add(block, place);
  return block;
}

void* allocate(std::size_t size, std::size_t alignment, const void* caller) noexcept {
  return allocate(caller, [&] {
    return alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ ? __libc_malloc(size)
                                                         : __libc_memalign(alignment, size);
  });
}

void* or_throw(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace
}  // namespace gaudi::test

using gaudi::test::allocate;
using gaudi::test::live;
using gaudi::test::or_throw;

#define CALLER __builtin_return_address(0)

// What the rest of the process calls instead of the C and C++ libraries' own.
#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) {
  return allocate(size, 1, CALLER);
}
void* calloc(std::size_t count, std::size_t size) {
  return allocate(CALLER, [&] { return __libc_calloc(count, size); });
}
void* realloc(void* old, std::size_t size) {
  return allocate(CALLER, [&] {
    live.remove(old);
    return __libc_realloc(old, size);
  });
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = allocate(size, alignment, CALLER);
  return *memory ? 0 : ENOMEM;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocate(size, alignment, CALLER);
}
char* strdup(const char* text) noexcept {
  const std::size_t size = std::strlen(text) + 1;
  void* const copy = allocate(size, 1, CALLER);
  return copy ? static_cast<char*>(std::memcpy(copy, text, size)) : nullptr;
}
void free(void* memory) {
  live.remove(memory);
  __libc_free(memory);
}

}  // extern "C"

void* operator new(std::size_t size) {
  return or_throw(allocate(size, 1, CALLER));
}
void* operator new[](std::size_t size) {
  return or_throw(allocate(size, 1, CALLER));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1, CALLER);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1, CALLER);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, static_cast<std::size_t>(alignment), CALLER));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, static_cast<std::size_t>(alignment), CALLER));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment), CALLER);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment), CALLER);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#pragma GCC visibility pop
