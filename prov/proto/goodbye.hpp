// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>

#include "base/clock.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/message/message_sender.hpp"

namespace gaudi::proto {

/// What has completed here is with the peers, or on its way, before an endpoint closes: messages
/// outlive their sender.
///
/// Not thread safe: the caller holds the domain lock.
class goodbye {
 public:
  goodbye(const endpoint_settings& config, connection_manager& connections, core_transport& core,
          packet_channel& channel, const message_sender& sender) noexcept
      : config_(config),
        connections_(connections),
        core_(core),
        channel_(channel),
        sender_(sender) {}

  /// Whether peers have still to take something. The first call starts endpoint_settings::linger,
  /// after which the answer is no.
  [[nodiscard]] bool must_linger();

 private:
  [[nodiscard]] bool has_left(connection& c);
  [[nodiscard]] static bool is_awaited(connection& c);
  [[nodiscard]] bool owes_goodbye(const connection& c) const noexcept;
  int say_goodbye(connection& c);

  const endpoint_settings& config_;
  connection_manager& connections_;
  core_transport& core_;
  packet_channel& channel_;
  const message_sender& sender_;
  std::optional<base::clock::time_point> until_;
};

}  // namespace gaudi::proto
