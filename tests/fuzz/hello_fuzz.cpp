// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The greeting that comes with a connection request, from whoever found the port.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "proto/wire/hello.hpp"

using namespace gaudi::proto;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length) {
  hello said{};
  const wire::reject_reason verdict = check_hello(bytes, length, said);
  if (to_string(verdict) == nullptr) std::abort();
  if (verdict != wire::reject_reason::none) return 0;
  const net_address name = address_of(said);
  // What is accepted leads back to the same name.
  if (name.length() == 0) return 0;
  hello again{};
  set_address(again, name);
  again.family = said.family;
  if (!(address_of(again) == name) || name.to_string().empty()) std::abort();
  return 0;
}
