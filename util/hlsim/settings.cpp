// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace hlsim {
namespace {

constexpr uint32_t max_devices = 64;
constexpr double driver_timeout_ms = 30000;
constexpr double driver_patience_ns = 1e9;  // with a process that keeps a reset device open

void complain(const char* name, const char* text) {
  std::fprintf(stderr, "hlsim: %s=%s cannot be understood; the default is used, see hlsim(7)\n",
               name, text);
}

/// A number >= 0 from the environment, or `fallback`.
double number(const char* name, double fallback) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end == '\0' && value >= 0) return value;
  complain(name, text);
  return fallback;
}

uint64_t size(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return 0;
  const uint64_t value = parse_size(text);
  if (value == 0) complain(name, text);
  return value;
}

std::string folder() {
  const char* text = std::getenv("HLSIM_DIR");
  if (text && *text) return std::filesystem::absolute(text).string();
  return "/dev/shm/hlsim-" + std::to_string(::getuid());
}

reorder order() {
  const char* text = std::getenv("HLSIM_REORDER");
  if (!text || !*text || std::strcmp(text, "1") == 0) return reorder::sometimes;
  if (std::strcmp(text, "0") == 0) return reorder::never;
  if (std::strcmp(text, "all") == 0) return reorder::always;
  complain("HLSIM_REORDER", text);
  return reorder::sometimes;
}

uint32_t generation() {
  const char* text = std::getenv("HLSIM_GENERATION");
  if (!text || !*text || std::strcmp(text, "2") == 0) return gaudi2.generation;
  if (std::strcmp(text, "1") == 0) return gaudi1.generation;
  if (std::strcmp(text, "3") == 0) return gaudi3.generation;
  complain("HLSIM_GENERATION", text);
  return gaudi2.generation;
}

uint32_t stacks(uint32_t of_generation) {
  const char* text = std::getenv("HLSIM_HBM_STACKS");
  if (!text || !*text || std::strcmp(text, "6") == 0) return gaudi2_stacks;
  if (std::strcmp(text, "5") == 0 && of_generation == gaudi2.generation) return 5;
  complain("HLSIM_HBM_STACKS", text);
  return gaudi2_stacks;
}

bool old_kernel() {
  const char* text = std::getenv("HLSIM_KERNEL");
  if (!text || !*text || std::strcmp(text, "6.12") == 0) return false;
  if (std::strcmp(text, "6.1") == 0) return true;
  complain("HLSIM_KERNEL", text);
  return false;
}

settings read() {
  settings s;
  s.folder = folder();
  s.devices = static_cast<uint32_t>(std::min<double>(number("HLSIM_DEVICES", 2), max_devices));
  s.devices_are.generation = generation();
  s.devices_are.stacks = stacks(s.devices_are.generation);
  s.hbm = size("HLSIM_HBM");
  s.page = size("HLSIM_HBM_PAGE");
  s.h2d = number("HLSIM_H2D_GBPS", 0);
  s.d2h = number("HLSIM_D2H_GBPS", 0);
  s.d2d = number("HLSIM_D2D_GBPS", 0);
  s.latency_ns = static_cast<uint64_t>(number("HLSIM_LATENCY_US", 0) * 1e3);
  s.release_ns = static_cast<uint64_t>(number("HLSIM_RELEASE_MS", 0) * 1e6);
  s.reset_ns = static_cast<uint64_t>(number("HLSIM_RESET_MS", 0) * 1e6);
  s.cs_timeout_ns = static_cast<uint64_t>(number("HLSIM_CS_TIMEOUT_MS", driver_timeout_ms) * 1e6);
  s.kill_ns = static_cast<uint64_t>(number("HLSIM_KILL", 0) * driver_patience_ns);
  if (const uint64_t bar = size("HLSIM_BAR"); bar != 0) s.bar = bar;
  s.old_kernel = old_kernel();
  s.order = order();
  s.dry = number("HLSIM_DRY", 0) != 0;
  if (const char* text = std::getenv("HLSIM_FAULT")) s.faults = text;
  if (const char* text = std::getenv("HLSIM_SYSFS")) s.sysfs = text;
  return s;
}

}  // namespace

uint64_t parse_size(const char* text) noexcept {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  int shift = 0;
  switch (*end) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      break;
  }
  if (shift != 0) ++end;
  const double bytes = value * static_cast<double>(uint64_t{1} << shift);
  return *end == '\0' && bytes >= 1 && bytes < 1e15 ? static_cast<uint64_t>(bytes) : 0;
}

const settings& current_settings() {
  static const settings* const s = new settings(read());  // lives as long as the worker threads may
  return *s;
}

const model& configured_model() {
  return model_of(current_settings().devices_are);
}

}  // namespace hlsim
