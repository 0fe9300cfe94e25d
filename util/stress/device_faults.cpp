// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device_faults.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

std::string folder() {
  const char* chosen = std::getenv("HLSIM_DIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : fmt::format("/dev/shm/hlsim-{}", getuid());
}

}  // namespace

device_faults::device_faults() : file_(folder() + "/fault") {}

device_faults::~device_faults() {
  mend();
}

void device_faults::reset(int index) {
  const std::string next = file_ + ".new";
  std::ofstream out(next);
  out << index << ":reset-after-ms=1";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(next, file_, error);
  if (!out || error) throw common::failure("cannot write " + file_);
  is_struck_ = true;
}

void device_faults::mend() {
  std::error_code ignored;
  if (is_struck_) std::filesystem::remove(file_, ignored);
  is_struck_ = false;
}

}  // namespace gaudi::stress
