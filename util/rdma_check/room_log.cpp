// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The five functions of libfabric that the provider's rooms below `reg` call, so that this tool is
// not linked with libfabric: what it finds is to be independent of it. The rooms explain a failure
// in a warning; it is kept for the line that the user reads. Parameters have their defaults.
#include "room_log.hpp"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

namespace gaudi::rdma_check {
namespace {

struct kept_warning {
  std::mutex mutex;  // copies may end on other threads
  std::string text;
};

kept_warning& last() {
  static kept_warning only;
  return only;
}

}  // namespace

std::string reason_of(int code) {
  const std::lock_guard hold(last().mutex);
  std::string text = std::exchange(last().text, {});
  return text.empty() ? std::strerror(-code) : text;
}

}  // namespace gaudi::rdma_check

extern "C" {

int fi_log_enabled(const fi_provider* /*prov*/, fi_log_level level, fi_log_subsys /*subsys*/) {
  return level == FI_LOG_WARN ? 1 : 0;
}

void fi_log(const fi_provider* /*prov*/, fi_log_level /*level*/, fi_log_subsys /*subsys*/,
            const char* /*func*/, int /*line*/, const char* format, ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  std::string line = text.data();
  while (!line.empty() && (line.back() == '\n' || line.back() == '.')) line.pop_back();
  auto& kept = gaudi::rdma_check::last();
  const std::lock_guard hold(kept.mutex);
  kept.text = std::move(line);
}

const char* fi_strerror(int code) {
  return std::strerror(code);
}

int fi_param_define(const fi_provider* /*prov*/, const char* /*name*/, fi_param_type /*type*/,
                    const char* /*help*/, ...) {
  return 0;
}

int fi_param_get(fi_provider* /*prov*/, const char* /*name*/, void* /*value*/) {
  return -FI_ENODATA;
}

}  // extern "C"
