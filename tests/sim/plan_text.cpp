// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/plan.hpp"

namespace gaudi::sim {
namespace {

std::string node_name(unsigned n) {
  return std::string(1, static_cast<char>('A' + n));
}

std::string matching(const action& a) {
  std::string text = a.tagged ? " tag " + std::to_string(a.tag) : " untagged";
  if (a.ignore != 0) text += a.ignore == ~std::uint64_t{0} ? " or any" : " or like it";
  return text;
}

std::string from(const action& a) {
  return a.any_peer ? " from any" : " from " + node_name(a.peer);
}

std::string bytes(const action& a) {
  return " " + std::to_string(a.length) + " B" + (a.on_device ? " of device memory" : "");
}

std::string flags(const action& a) {
  std::string text;
  if (a.has_data) text += " data";
  if (a.inject) text += " inject";
  if (a.delivery) text += " delivery";
  if (a.transmit) text += " transmit";
  return text;
}

}  // namespace

std::string to_string(const action& a) {
  switch (a.what) {
    case action::kind::send:
      return "send to " + node_name(a.peer) + matching(a) + bytes(a) + flags(a);
    case action::kind::receive:
      return "receive" + from(a) + matching(a) + bytes(a);
    case action::kind::receive_many:
      return "receive many" + from(a) + bytes(a);
    case action::kind::peek:
      return std::string("peek") + (a.claim ? "+claim" : "") + (a.discard ? "+discard" : "") +
             from(a) + matching(a);
    case action::kind::write:
      return "write to " + node_name(a.peer) + " at " + std::to_string(a.offset) + bytes(a) +
             flags(a);
    case action::kind::read:
      return "read from " + node_name(a.peer) + bytes(a);
    case action::kind::atomic:
      return std::string(a.fetch ? "fetching " : "") + "atomic at " + node_name(a.peer) + " bit " +
             std::to_string(a.bit);
    case action::kind::cancel:
      return "cancel";
  }
  return "nothing";
}

std::string to_string(const fault& f) {
  const std::string when = "step " + std::to_string(f.step) + ": ";
  const std::string back = ", back " + std::to_string(f.away) + " steps later";
  switch (f.what) {
    case fault::kind::cut:
      return when + "a connection of " + node_name(f.node) + " and " + node_name(f.peer) +
             " is lost";
    case fault::kind::silence:
      return when + "a connection of " + node_name(f.node) + " and " + node_name(f.peer) +
             " carries nothing any more";
    case fault::kind::kill:
      return when + node_name(f.node) + " is killed" + back;
    case fault::kind::close:
      return when + node_name(f.node) + " closes" + back;
    case fault::kind::forget:
      return when + node_name(f.node) + " removes the address of " + node_name(f.peer) + back;
    case fault::kind::unplug:
      return when + "interface " + std::to_string(f.choice) + " of " + node_name(f.node) +
             " loses its link" + back;
    case fault::kind::reset:
      return when + "the device of " + node_name(f.node) + " is reset" +
             (f.choice % 2 != 0 ? "" : ", and nobody is told");
  }
  return when;
}

}  // namespace gaudi::sim
