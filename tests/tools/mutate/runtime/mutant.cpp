// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

int gaudi_active_mutant = 0;
unsigned char* gaudi_reached_mutants = nullptr;

namespace {

using clock_type = std::chrono::steady_clock;

constexpr int max_mutants = 1 << 20;
clock_type::time_point began;

const char* record() noexcept {
  return std::getenv("GAUDI_MUTANT_REACHED");
}

[[gnu::constructor(101)]] void start() {
  if (const char* number = std::getenv("GAUDI_MUTANT")) gaudi_active_mutant = std::atoi(number);
  if (!record()) return;
  const int map = ::open((std::string(record()) + ".map").c_str(), O_RDWR | O_CLOEXEC);
  void* const at = ::mmap(nullptr, max_mutants, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
  if (at == MAP_FAILED) std::abort();
  ::close(map);
  gaudi_reached_mutants = static_cast<unsigned char*>(at);
}

}  // namespace

void gaudi_test_begins() noexcept {
  began = clock_type::now();
}

void gaudi_test_ended(const char* name) noexcept {
  if (!gaudi_reached_mutants) return;
  const auto took =
      std::chrono::duration_cast<std::chrono::microseconds>(clock_type::now() - began);
  std::FILE* const file = std::fopen(record(), "a");
  if (!file) std::abort();
  std::fprintf(file, "%s %lld", name, static_cast<long long>(took.count()));
  for (int number = 0; number < max_mutants; ++number)
    if (gaudi_reached_mutants[number]) std::fprintf(file, " %d", number);
  std::fputc('\n', file);
  std::fclose(file);
  std::memset(gaudi_reached_mutants, 0, max_mutants);
}
