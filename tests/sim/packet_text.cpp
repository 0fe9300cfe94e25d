// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/packet_text.hpp"

#include <cstring>

#include "proto/wire/wire.hpp"

namespace gaudi::sim {
namespace {

namespace wire = proto::wire;

const char* name_of(wire::kind what) noexcept {
  switch (what) {
    case wire::kind::eager:
      return "eager";
    case wire::kind::rts:
      return "rts";
    case wire::kind::write:
      return "write";
    case wire::kind::write_rts:
      return "write_rts";
    case wire::kind::read:
      return "read";
    case wire::kind::atomic:
      return "atomic";
    case wire::kind::read_reply:
      return "read_reply";
    case wire::kind::read_rts:
      return "read_rts";
    case wire::kind::cts:
      return "cts";
    case wire::kind::chunk:
      return "chunk";
    case wire::kind::slot_credit:
      return "slot_credit";
    case wire::kind::fin:
      return "fin";
    case wire::kind::event:
      return "event";
    case wire::kind::flush:
      return "flush";
    case wire::kind::ask_rails:
      return "ask_rails";
    case wire::kind::rail_names:
      return "rail_names";
    case wire::kind::rail_lost:
      return "rail_lost";
    case wire::kind::ask_rail_keys:
      return "ask_rail_keys";
    case wire::kind::rail_keys:
      return "rail_keys";
    case wire::kind::rail_closed:
      return "rail_closed";
    case wire::kind::credit:
      return "credit";
    case wire::kind::close_request:
      return "close_request";
    case wire::kind::close_accept:
      return "close_accept";
    case wire::kind::close_refuse:
      return "close_refuse";
    case wire::kind::credit_recall:
      return "credit_recall";
    case wire::kind::credit_release:
      return "credit_release";
    case wire::kind::resume:
      return "resume";
    case wire::kind::leave:
      return "leave";
    default:
      return "packet";
  }
}

}  // namespace

std::string packet_text(std::span<const std::byte> packet) {
  wire::header head{};
  if (packet.size() < sizeof head) return std::to_string(packet.size()) + " B";
  std::memcpy(&head, packet.data(), sizeof head);
  std::string text = std::string(name_of(head.what)) + " " + std::to_string(packet.size()) + " B";
  if (head.data_credits + head.control_credits != 0)
    text += " +" + std::to_string(head.data_credits) + "/" + std::to_string(head.control_credits);
  if (head.what == wire::kind::resume) text += " has " + std::to_string(head.received);
  if (head.number != 0) text += " #" + std::to_string(head.number);
  wire::fin_fields done;
  if (head.what == wire::kind::fin && packet.size() >= sizeof done) {
    std::memcpy(&done, packet.data(), sizeof done);
    if (done.status != 0) text += " error " + std::to_string(done.status);
  }
  return text;
}

}  // namespace gaudi::sim
