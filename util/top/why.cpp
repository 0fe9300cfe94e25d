// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "why.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include "why_call.hpp"
#include "why_peer.hpp"

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::wait_reason;

/// "3 operations"
std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

struct phrase {
  std::string_view culprit;
  std::string_view text;  // what waits for it follows "wait for"
  bool is_of_peer;
};

phrase phrase_of(wait_reason why) {
  switch (why) {
    case wait_reason::matching_receive:
      return {"no-answer", "a matching receive at", true};
    case wait_reason::peer_answer:
      return {"no-answer", "the answer of", true};
    case wait_reason::peer_data:
      return {"peer-data", "data of", true};
    case wait_reason::peer_slots:
      return {"peer-slots", "staging slots of", true};
    case wait_reason::peer_end:
      return {"peer-end", "the last word of", true};
    case wait_reason::network:
      return {"network", "the network to", true};
    case wait_reason::credit:
      return {"credit", "credit of", true};
    case wait_reason::device_copy:
      return {"device", "a copy by a device's engine", false};
    case wait_reason::staging:
      return {"staging", "staging memory of this process", false};
    case wait_reason::room:
      return {"room", "room in the core or in shared memory", false};
    case wait_reason::application:
      return {"application", "this application to take what has come", false};
    case wait_reason::memory:
      return {"memory", "memory", false};
    case wait_reason::handshake:  // verdict_on_connection
    case wait_reason::reconnection:
    case wait_reason::nothing:
      break;
  }
  return {"unknown", "something that this release does not know", false};
}

std::string device_text(const record& r) {
  if (r.wait != wait_reason::device_copy || r.device < 0) return "";
  return fmt::format(" (gaudi{})", r.device);
}

/// " (Connection reset by peer)"; libfabric's own codes say less than nothing here.
std::string error_text(std::uint64_t code) {
  constexpr std::uint64_t first_of_libfabric = 256;
  if (code == 0 || code >= first_of_libfabric) return "";
  return fmt::format(" ({})", std::generic_category().message(static_cast<int>(code)));
}

bool is_being_made(const record& connection) {
  return connection.wait == wait_reason::handshake || connection.wait == wait_reason::reconnection;
}

std::string others_lost(const evidence& known) {
  const auto& all = known.subject.connections;
  const auto lost = std::count_if(
      all.begin(), all.end(), [](const record& r) { return r.wait == wait_reason::reconnection; });
  if (lost < 2) return "";
  return fmt::format(", as {}",
                     lost == 2 ? "was 1 other" : fmt::format("were {} others", lost - 1));
}

/// A connection that is being made, or made again; `waiting`: what waits for it.
verdict verdict_on_connection(const evidence& known, const record& c, std::string_view waiting) {
  const peer_process peer = find_peer(known, c);
  verdict found;
  if (peer.process) found = fault_of_process(peer, known.now);
  std::string text = fmt::format("the connection with {}{}", peer_text(c, peer), found.text);
  if (!found.text.empty()) text += ',';
  const std::string age = age_text(since(c.since, known.now));
  const bool was_lost = c.wait == wait_reason::reconnection;
  text += was_lost ? fmt::format(" was lost {} ago{}{} and is being made again", age,
                                 error_text(c.done), others_lost(known))
                   : fmt::format(" is being made for {}", age);
  if (!waiting.empty()) text += fmt::format(", {}", waiting);
  if (c.total != 0)
    text +=
        fmt::format("; given up in {}", age_text(c.total > known.now ? c.total - known.now : 0));
  if (found.culprit.empty()) found.culprit = was_lost ? "connection-lost" : "handshake";
  return {found.culprit, text};
}

/// The connection that an operation has lost; null: it has one.
const record* lost_connection_of(const evidence& known, const record& operation) {
  for (const record& c : known.subject.connections)
    if (c.wait == wait_reason::reconnection && c.endpoint == operation.endpoint &&
        c.address == operation.address)
      return &c;
  return nullptr;
}

std::string waiting_text(std::size_t n, std::string_view what) {
  if (n == 0) return "";
  return fmt::format("{} {} for it", counted(n, what), n == 1 ? "waits" : "wait");
}

/// Of those that wait for the same as the oldest one.
verdict verdict_on(const evidence& known, const std::vector<record>& all, std::string_view what) {
  const record& oldest = all.front();
  const phrase said = phrase_of(oldest.wait);
  const auto alike = std::count_if(all.begin(), all.end(), [&](const record& r) {
    return r.wait == oldest.wait && (!said.is_of_peer || r.address == oldest.address);
  });
  std::string text = fmt::format("{} {} for {}", counted(static_cast<std::size_t>(alike), what),
                                 alike == 1 ? "waits" : "wait", said.text);
  if (!said.is_of_peer)
    return {said.culprit, fmt::format("{}{}, for {}", text, device_text(oldest),
                                      age_text(since(oldest.since, known.now)))};
  const peer_process peer = find_peer(known, oldest);
  text += fmt::format(" {}", peer_text(oldest, peer));
  const verdict fault = fault_of_peer(known, oldest, peer);
  if (!fault.culprit.empty()) return {fault.culprit, text + fault.text};
  return {said.culprit, fmt::format("{}, for {}", text, age_text(since(oldest.since, known.now)))};
}

verdict verdict_on_operations(const evidence& known) {
  const auto& all = known.subject.operations;
  const record* const lost =
      phrase_of(all.front().wait).is_of_peer ? lost_connection_of(known, all.front()) : nullptr;
  if (!lost) return verdict_on(known, all, "operation");
  const auto alike = std::count_if(all.begin(), all.end(), [&](const record& r) {
    return lost_connection_of(known, r) == lost;
  });
  return verdict_on_connection(known, *lost,
                               waiting_text(static_cast<std::size_t>(alike), "operation"));
}

verdict verdict_on_connections(const evidence& known) {
  const record& oldest = known.subject.connections.front();
  if (!is_being_made(oldest)) return verdict_on(known, known.subject.connections, "connection");
  return verdict_on_connection(known, oldest,
                               waiting_text(oldest.counts[outstanding::queued_packets], "message"));
}

/// The endpoint of what waits, where the application progresses others only; 0: not so.
std::uint64_t idle_time_of_own(const evidence& known, const record& waits) {
  for (const record& e : known.subject.endpoints)
    if (e.endpoint == waits.endpoint) return idle_time(e, known.now);
  return 0;
}

/// What has waited longest is what the others may wait behind.
verdict verdict_on_oldest(const evidence& known) {
  const auto& operations = known.subject.operations;
  const auto& connections = known.subject.connections;
  const bool is_operation =
      connections.empty() ||
      (!operations.empty() && operations.front().since <= connections.front().since);
  const record& oldest = is_operation ? operations.front() : connections.front();
  if (const std::uint64_t idle = idle_time_of_own(known, oldest))
    return {"application", fmt::format("the application progresses other endpoints, and has not "
                                       "progressed the one that waits for {}",
                                       age_text(idle))};
  return is_operation ? verdict_on_operations(known) : verdict_on_connections(known);
}

bool has_lost_device(const record& r) {
  return (r.flags & outstanding::device_lost) != 0;
}

verdict verdict_without_waits(const evidence& known) {
  std::uint64_t receives = 0;
  std::uint64_t unexpected = 0;
  const record* lost = nullptr;
  for (const record& e : known.subject.endpoints) {
    receives += e.counts[outstanding::posted_receives];
    unexpected += e.counts[outstanding::unexpected_messages];
    if (e.done != 0 && (!lost || e.done > lost->done)) lost = &e;
  }
  if (lost)
    return {"device-lost",
            fmt::format("{} lost by reset, hang or removal, the last {} ago: what was there failed",
                        counted(lost->total, "device"), age_text(since(lost->done, known.now)))};
  if (receives != 0)
    return {"no-message", fmt::format("{} {} for messages that no peer has sent ({} unexpected)",
                                      counted(receives, "receive"),
                                      receives == 1 ? "waits" : "wait", unexpected)};
  if (known.subject.endpoints.empty())
    return {"nothing", "no endpoint is enabled: the process waits for something else"};
  return {"nothing", "nothing is outstanding: the process waits for something else"};
}

}  // namespace

verdict verdict_of(const evidence& known) {
  const outstanding_view& p = known.subject;
  if (is_stopped(p)) return {"stopped", fmt::format("process {} is stopped (by a signal)", p.pid)};
  if (const record* const call = stuck_call(p, known.now))
    return {"driver", fmt::format("a thread has been {} for {}: see the kernel's log (dmesg)",
                                  call_text(*call), age_text(since(call->since, known.now)))};
  if (const std::uint64_t idle = idle_time(p, known.now))
    return {"application",
            fmt::format("the application has not called the provider for {}, {} outstanding",
                        age_text(idle), counted(p.operations.size(), "operation"))};
  const auto lost = std::find_if(p.operations.begin(), p.operations.end(), has_lost_device);
  if (lost != p.operations.end())
    return {"device-lost", fmt::format("an operation's device (gaudi{}) is lost: in reset, hung or "
                                       "removed",
                                       lost->device)};
  if (!p.operations.empty() || !p.connections.empty()) return verdict_on_oldest(known);
  return verdict_without_waits(known);
}

std::string age_text(std::uint64_t nanoseconds) {
  const std::uint64_t seconds = nanoseconds / second;
  if (seconds == 0) return fmt::format("{} ms", nanoseconds / 1'000'000);
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h", seconds / 3600);
}

std::string address_text(const record& r) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  sockaddr_in v4{};
  std::memcpy(&v4, r.address.data(), sizeof v4);
  if (v4.sin_family == AF_INET) {
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, r.address.data(), sizeof v6);
  if (v6.sin6_family != AF_INET6) return "-";
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(v6.sin6_port));
}

std::string_view name_of(wait_reason why) {
  static constexpr std::array<std::string_view, 15> names{
      "nothing",  "matching_receive", "peer_answer", "peer_data", "peer_slots",
      "peer_end", "network",          "device_copy", "staging",   "room",
      "credit",   "handshake",        "application", "memory",    "reconnection"};
  const auto at = static_cast<std::size_t>(why);
  return at < names.size() ? names[at] : "unknown";
}

}  // namespace gaudi::top
