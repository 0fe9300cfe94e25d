// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Gives a fuzz target, without libFuzzer, the inputs of a corpus and of each some that differ from
// it in a few bytes:
//   TARGET CORPUS VARIANTS
// The same at every run. What the target dislikes, it aborts at, or a sanitizer does; the input is
// told then.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length);

namespace {

using input = std::vector<std::uint8_t>;

const char* current_file = "";
unsigned current_variant = 0;

extern "C" void tell_input(int signal) {
  std::fprintf(stderr, "failed with variant %u of %s\n", current_variant, current_file);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

input read(const std::filesystem::path& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

/// 0 is the input itself. Lengths vary as well: what is cut off is as wrong as what is changed.
input variant(input of, unsigned number) {
  if (number == 0 || of.empty()) return of;
  std::minstd_rand dice(number);
  const unsigned changes = 1 + dice() % 4;
  for (unsigned i = 0; i < changes; ++i) {
    std::uint8_t& changed = of[dice() % of.size()];
    changed = dice() % 2 ? static_cast<std::uint8_t>(changed ^ (1U << dice() % 8))
                         : static_cast<std::uint8_t>(dice());
  }
  if (dice() % 8 == 0) of.resize(dice() % of.size() + 1);
  return of;
}

std::vector<std::filesystem::path> files_of(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const unsigned variants = static_cast<unsigned>(std::stoul(argv[2]));
  std::signal(SIGABRT, tell_input);
  unsigned long inputs = 0;
  for (const auto& file : files_of(argv[1])) {
    current_file = file.c_str();
    const input kept = read(file);
    for (current_variant = 0; current_variant <= variants; ++current_variant, ++inputs) {
      const input given = variant(kept, current_variant);
      LLVMFuzzerTestOneInput(given.data(), given.size());
    }
  }
  std::printf("%lu inputs\n", inputs);
  return inputs == 0;
} catch (const std::exception& failed) {
  std::fprintf(stderr, "%s\n", failed.what());
  return 2;
}
