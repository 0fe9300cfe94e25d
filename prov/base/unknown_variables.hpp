// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

namespace gaudi::base {

/// A variable of the environment that has a parameter's prefix and is no parameter.
struct unknown_variable {
  std::string name;     ///< "FI_GAUDI_EAGERSIZE"
  std::string nearest;  ///< the parameter with the fewest letters to change: "FI_GAUDI_EAGER_SIZE"
};

/// Those in `environment`, a list as environ is, in its order; null: none.
std::vector<unknown_variable> unknown_variables(const char* const* environment);

/// One warning for each of the process's.
void warn_of_unknown_variables();

}  // namespace gaudi::base
