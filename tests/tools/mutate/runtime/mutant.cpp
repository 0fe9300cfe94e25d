// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int gaudi_active_mutant = 0;
unsigned char* gaudi_reached_mutants = nullptr;

namespace {

using clock_type = std::chrono::steady_clock;

constexpr int max_mutants = 1 << 16;
clock_type::time_point began;
pid_t recorder = 0;

// Shared, so that it has what a child of fork comes by.
[[gnu::constructor(101)]] void start() {
  if (const char* number = std::getenv("GAUDI_MUTANT")) gaudi_active_mutant = std::atoi(number);
  if (!std::getenv("GAUDI_MUTANT_REACHED")) return;
  void* const at =
      ::mmap(nullptr, max_mutants, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  gaudi_reached_mutants = static_cast<unsigned char*>(at);
  recorder = ::getpid();
}

// What a program without tests of its own comes by, and what is outside of the tests.
[[gnu::destructor(101)]] void stop() {
  gaudi_test_ended("*");
}

}  // namespace

void gaudi_test_begins() noexcept {
  began = clock_type::now();
}

void gaudi_test_ended(const char* name) noexcept {
  if (!gaudi_reached_mutants || ::getpid() != recorder) return;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      began == clock_type::time_point{} ? clock_type::duration{} : clock_type::now() - began);
  std::FILE* const file = std::fopen(std::getenv("GAUDI_MUTANT_REACHED"), "a");
  if (!file) std::abort();
  std::fprintf(file, "%s %lld", name, static_cast<long long>(took.count()));
  for (int number = 0; number < max_mutants; ++number)
    if (gaudi_reached_mutants[number]) std::fprintf(file, " %d", number);
  std::fputc('\n', file);
  std::fclose(file);
  std::memset(gaudi_reached_mutants, 0, max_mutants);
}
