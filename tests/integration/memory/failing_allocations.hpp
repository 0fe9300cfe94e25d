// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

/// This program's malloc and operator new, which let one allocation of the provider's fail. Those
/// of libgaudi-fi.so itself and what the C++ library allocates for it are counted; libfabric's, the
/// device library's and the program's own are not.
namespace gaudi::test {

/// Finds out where the provider is loaded. False: it is not. Call it after fi_getinfo has loaded it
/// once.
bool find_provider();

/// The `n`-th allocation from here on fails, counted from 1; 0: none does.
void fail_allocation(std::size_t n) noexcept;

/// How many there were since then.
std::size_t count_allocations() noexcept;

/// How many blocks there are that have not been freed, by the place in the library where they were
/// allocated (an offset in the file, for addr2line(1)).
std::map<std::uintptr_t, std::size_t> live_allocations();

}  // namespace gaudi::test
