// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "run.hpp"

int main(int argc, char** argv) {
  try {
    gaudi::stress::options chosen;
    if (const auto code = gaudi::stress::parse(argc, argv, chosen)) return *code;
    return gaudi::stress::run(chosen);
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "gaudi_stress: %s\n", error.what()));
    return EXIT_FAILURE;
  }
}
