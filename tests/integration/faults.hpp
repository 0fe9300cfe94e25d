// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gaudi::test {

inline std::string fault_file() {
  return std::string(std::getenv("HLSIM_DIR")) + "/fault";
}

/// Makes something happen to a device of the stand-in's (hlsim(7), FAULTS), as this process and all
/// others see it.
inline void strike(const std::string& fault) {
  std::ofstream(fault_file() + ".new") << fault;
  std::filesystem::rename(fault_file() + ".new", fault_file());
}
inline void mend() {
  std::filesystem::remove(fault_file());
}

}  // namespace gaudi::test
