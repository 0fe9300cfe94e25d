// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Prints the parameter table, a line each: name, default, least and greatest value, help, with tabs
// between them. For params_match_man.py.
#include <cstdio>

#include "base/params.hpp"

int main() {
  for (const gaudi::base::param_spec& p : gaudi::base::param_table) {
    std::printf("%s\t%s\t%llu\t%llu\t%s\n", p.name, p.default_text,
                static_cast<unsigned long long>(p.min), static_cast<unsigned long long>(p.max),
                p.help);
  }
}
