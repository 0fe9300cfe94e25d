// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fault.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "settings.hpp"
#include "shared_state.hpp"

namespace hlsim {
namespace {

constexpr uint32_t any_device = UINT32_MAX;

constexpr std::array<std::pair<std::string_view, fault>, 13> names{{
    {"busy", fault::busy},
    {"in-reset", fault::in_reset},
    {"malfunction", fault::malfunction},
    {"removal", fault::removal},
    {"cs-timeout", fault::cs_timeout},
    {"enomem", fault::enomem},
    {"emfile", fault::emfile},
    {"no-dmabuf", fault::no_dmabuf},
    {"reset", fault::reset},
    {"reset-after-ms", fault::reset_after_ms},
    {"hang", fault::hang},
    {"export-hang", fault::export_hang},
    {"pause", fault::pause},
}};

std::optional<fault> named(std::string_view name) {
  for (const auto& [text, value] : names)
    if (text == name) return value;
  return std::nullopt;
}

/// Changes when the file is written or replaced; 0 when there is none.
int64_t stamp(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return 0;
  return s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec + static_cast<int64_t>(s.st_ino);
}

}  // namespace

fault_set& fault_set::instance() {
  static fault_set* const set = new fault_set;  // lives as long as the worker threads may
  return *set;
}

fault_set::fault_set()
    : from_environment_(parse(current_settings().faults)),
      path_(current_settings().folder + "/fault"),
      empty_(from_environment_.empty()) {}

bool fault_set::strikes(fault which, uint32_t index) {
  if (empty()) return false;
  const std::lock_guard lock(mutex_);
  return strikes(from_environment_, which, index) || strikes(from_file_, which, index);
}

bool fault_set::strikes(table& faults, fault which, uint32_t index) {
  for (const uint32_t device : {index, any_device}) {
    const auto found = faults.find({device, which});
    if (found == faults.end()) continue;
    entry& e = found->second;
    if (e.at == 0 || ++e.asked == e.at) return true;
  }
  return false;
}

void fault_set::refresh(uint64_t max_age_ns) {
  const uint64_t now = now_ns();
  if (max_age_ns != 0 && now - looked_ns_ < max_age_ns) return;
  looked_ns_ = now;
  const int64_t seen = stamp(path_);
  const std::lock_guard lock(mutex_);
  if (seen == file_stamp_) return;
  file_stamp_ = seen;
  std::ostringstream text;
  text << std::ifstream(path_).rdbuf();
  from_file_ = parse(text.str());
  empty_ = from_environment_.empty() && from_file_.empty();
}

uint64_t fault_set::number(fault which, uint32_t index) {
  const std::lock_guard lock(mutex_);
  for (const table* const faults : {&from_environment_, &from_file_})
    for (const uint32_t device : {index, any_device})
      if (const auto found = faults->find({device, which}); found != faults->end())
        return found->second.at;
  return 0;
}

fault_set::table fault_set::parse(const std::string& text) {
  table faults;
  std::string word;
  std::string words = text;
  for (char& c : words)
    if (c == ',' || c == '\n') c = ' ';
  for (std::istringstream in(words); in >> word;) {
    std::string name = word;
    uint32_t device = any_device;
    entry e;
    if (const auto colon = name.find(':'); colon != std::string::npos) {
      device = static_cast<uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
      name.erase(0, colon + 1);
    }
    if (const auto equals = name.find('='); equals != std::string::npos) {
      e.at = std::strtoull(name.c_str() + equals + 1, nullptr, 10);
      name.erase(equals);
    }
    if (const auto which = named(name))
      faults[{device, *which}] = e;
    else
      std::fprintf(stderr, "hlsim: no fault is called \"%s\"; it is ignored, see hlsim(7)\n",
                   word.c_str());
  }
  return faults;
}

}  // namespace hlsim
