// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "handshake.hpp"

#include <fmt/format.h>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using common::failure;
using nlohmann::json;

constexpr const char* version_key = "gaudi_stress";

void require_same_release(const json& peer) {
  const json version = peer.is_object() ? peer.value(version_key, json()) : json();
  if (!version.is_string()) throw failure("the other side is no gaudi_stress");
  if (version == GAUDI_STRESS_VERSION) return;
  throw failure(fmt::format("the other side is release {}, this one " GAUDI_STRESS_VERSION
                            ": both have to be the same",
                            version.get<std::string>()));
}

}  // namespace

options welcome(common::oob_channel& client, unsigned own_workers) {
  const json hello = client.receive();
  require_same_release(hello);
  client.send({{version_key, GAUDI_STRESS_VERSION}, {"first", own_workers}});
  try {
    return hello.at("work").get<options>();
  } catch (const json::exception&) {
    throw failure("the client asks for a run that this side does not understand");
  }
}

unsigned introduce(common::oob_channel& server, const options& work) {
  const json answer = server.exchange({{version_key, GAUDI_STRESS_VERSION}, {"work", work}});
  require_same_release(answer);
  return answer.value("first", 0U);
}

}  // namespace gaudi::stress
