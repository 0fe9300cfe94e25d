// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/dmabuf_ids.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace gaudi::reg {

base::result<std::uint64_t> dmabuf_ids::number_of(const core::dmabuf_range& part) {
  struct stat file {};
  if (::fstat(part.fd, &file) != 0) return base::error{-errno};
  const part_name name{file.st_dev, file.st_ino, part.offset, part.length, part.base_addr};
  const auto [known, added] = numbers_.try_emplace(name, next_);
  if (added) ++next_;
  return known->second;
}

}  // namespace gaudi::reg
