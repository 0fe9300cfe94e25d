// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "scarce_memory.hpp"

#include <cstdlib>
#include <new>

namespace gaudi::test {
namespace {

thread_local long allocations_left = -1;  // negative: any number

}  // namespace

scarce_memory::scarce_memory(long allocations) noexcept {
  allocations_left = allocations;
}

scarce_memory::~scarce_memory() {
  allocations_left = -1;
}

namespace {

void* allocate(std::size_t size) noexcept {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(size);
}

}  // namespace
}  // namespace gaudi::test

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* bytes = gaudi::test::allocate(size)) return bytes;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return gaudi::test::allocate(size);
}
[[gnu::noinline]] void operator delete(void* bytes) noexcept {
  std::free(bytes);
}
[[gnu::noinline]] void operator delete(void* bytes, std::size_t) noexcept {
  std::free(bytes);
}
[[gnu::noinline]] void operator delete(void* bytes, const std::nothrow_t&) noexcept {
  std::free(bytes);
}
