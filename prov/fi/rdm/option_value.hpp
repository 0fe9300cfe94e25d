// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstring>

namespace gaudi::fi {

/// The value of an option, as fi_getopt gives it. -FI_ETOOSMALL: *length is, and becomes what it
/// takes.
template <class T>
int give_option(const T& value, void* out, std::size_t* length) noexcept {
  const std::size_t room = *length;
  *length = sizeof value;
  if (room < sizeof value) return -FI_ETOOSMALL;
  std::memcpy(out, &value, sizeof value);
  return 0;
}

/// The same for fi_setopt. -FI_EINVAL: another length.
template <class T>
int take_option(T& value, const void* in, std::size_t length) noexcept {
  if (length != sizeof value) return -FI_EINVAL;
  std::memcpy(&value, in, sizeof value);
  return 0;
}

}  // namespace gaudi::fi
