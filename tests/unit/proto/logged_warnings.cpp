// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "logged_warnings.hpp"

#include <dlfcn.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <cstdarg>
#include <cstdio>

namespace {
std::string* logged = nullptr;  // null: nobody wants to know
}  // namespace

extern "C" {
int fi_log_enabled(const fi_provider* provider, fi_log_level level, fi_log_subsys subsystem) {
  using function = int (*)(const fi_provider*, fi_log_level, fi_log_subsys);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "fi_log_enabled"));
  return logged ? level == FI_LOG_WARN : real(provider, level, subsystem);
}
void fi_log(const fi_provider*, fi_log_level, fi_log_subsys, const char*, int, const char* format,
            ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  logged ? static_cast<void>(*logged += text) : static_cast<void>(std::fputs(text, stderr));
}
}

namespace gaudi::proto::test {

logged_warnings::logged_warnings() {
  logged = &text_;
}

logged_warnings::~logged_warnings() {
  logged = nullptr;
}

}  // namespace gaudi::proto::test
