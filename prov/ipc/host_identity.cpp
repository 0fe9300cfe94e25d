// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/host_identity.hpp"

#include <fstream>
#include <string>

namespace gaudi::ipc {

std::uint32_t host_identity(const std::filesystem::path& boot_id) {
  std::ifstream file(boot_id);
  std::string text;
  if (!std::getline(file, text) || text.empty()) return 0;
  // FNV-1a: the same in every build of the provider, which std::hash need not be.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  const auto folded = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  return folded ? folded : 1;
}

}  // namespace gaudi::ipc
