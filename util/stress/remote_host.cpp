// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "remote_host.hpp"

#include <fmt/format.h>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds between_callers{50};
// That whoever connects has to say who it is.
constexpr std::chrono::seconds introduction_time{5};

std::optional<std::string> text_of(const json& answer) {
  const std::string text = answer.value("why", "");
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

common::oob_channel remote_host::start(unsigned number) {
  client_.send({{"start", number}});
  const auto end = std::chrono::steady_clock::now() + timeout_;
  while (std::chrono::steady_clock::now() < end) {
    if (port_.has_client(between_callers)) {
      common::oob_channel caller = port_.accept(introduction_time);
      if (is_worker(caller, number)) {
        caller.set_timeout(2 * timeout_);
        return caller;
      }
    }
    if (const auto gone = why_gone()) throw common::failure(*gone);
  }
  throw common::failure(fmt::format("worker {} on the client does not connect", number));
}

// Anyone may connect to a port; only a worker of this client is let in.
bool remote_host::is_worker(common::oob_channel& caller, unsigned number) {
  try {
    const json hello = caller.receive();
    if (hello.is_object() && hello.value("worker", json()) == number) return true;
    caller.tell_failure("the server has a client already");
  } catch (const common::failure&) {
    // It spoke something else, or left.
  }
  return false;
}

std::optional<std::string> remote_host::why_crashed(unsigned number) {
  return text_of(ask({{"why", number}}));
}

std::optional<std::string> remote_host::join(unsigned number) {
  return text_of(ask({{"join", number}}));
}

std::optional<std::string> remote_host::why_gone() {
  try {
    if (client_.peer_gone()) return "the client is gone";
  } catch (const common::peer_failure& error) {
    return fmt::format("the client failed: {}", error.reason());
  }
  return std::nullopt;
}

json remote_host::ask(const json& order) {
  return client_.exchange(order);
}

}  // namespace gaudi::stress
