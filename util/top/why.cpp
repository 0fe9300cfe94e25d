// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "why.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::wait_reason;

constexpr std::uint64_t second = 1'000'000'000;

std::uint64_t since(std::uint64_t at, std::uint64_t now) {
  return now > at ? now - at : 0;
}

bool is_stopped(const outstanding_view& p) {
  return p.state == 'T' || p.state == 't';
}

/// How long nobody has progressed the process's endpoints, who was to do so; 0: not for long.
std::uint64_t idle_time(const outstanding_view& p, std::uint64_t now) {
  std::uint64_t last = 0;
  for (const record& e : p.endpoints) {
    if ((e.flags & outstanding::asleep) != 0) return 0;
    last = std::max(last, e.seen);
  }
  const std::uint64_t idle = since(last, now);
  return p.endpoints.empty() || idle < second ? 0 : idle;
}

/// "3 operations"
std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

/// The peer of a record, where it is a process of this host.
struct peer_process {
  const outstanding_view* process = nullptr;
  const record* endpoint = nullptr;
};

peer_process find_peer(const evidence& known, const record& of) {
  for (const outstanding_view& p : known.host)
    for (const record& e : p.endpoints)
      if (of.instance != 0 ? e.instance == of.instance : e.address == of.address) return {&p, &e};
  return {};
}

bool has_copies_for(const outstanding_view& p, const evidence& known) {
  return std::any_of(p.operations.begin(), p.operations.end(), [&](const record& r) {
    return r.wait == wait_reason::device_copy &&
           std::any_of(known.subject.endpoints.begin(), known.subject.endpoints.end(),
                       [&](const record& e) { return e.instance == r.instance; });
  });
}

/// What is the matter with a peer that somebody waits for; "" for nothing that is seen.
verdict fault_of_peer(const evidence& known, const record& waits, const peer_process& peer) {
  if (!peer.process) {
    const std::uint64_t silence = since(std::max(waits.seen, waits.since), known.now);
    if (silence < second) return {};
    return {"peer-silent", fmt::format(", silent for {}", age_text(silence))};
  }
  if (is_stopped(*peer.process)) return {"peer-stopped", ", which is stopped (by a signal)"};
  if (const std::uint64_t idle = idle_time(*peer.process, known.now))
    return {"peer-application",
            fmt::format(", whose application has not called the provider for {}", age_text(idle))};
  if (has_copies_for(*peer.process, known))
    return {"peer-device", ", whose device is still copying"};
  if (waits.wait == wait_reason::matching_receive &&
      peer.endpoint->counts[outstanding::unexpected_messages] != 0)
    return {"no-receive", ", which has posted no matching receive"};
  return {};
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
    case wait_reason::handshake:
      return {"handshake", "a connection with", true};
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
    case wait_reason::nothing:
      break;
  }
  return {"unknown", "something that this release does not know", false};
}

std::string device_text(const record& r) {
  if (r.wait != wait_reason::device_copy || r.device < 0) return "";
  return fmt::format(" (gaudi{})", r.device);
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
  text += fmt::format(" {}", address_text(oldest));
  if (peer.process)
    text += fmt::format(" (process {}, {})", peer.process->pid, peer.process->command);
  const verdict fault = fault_of_peer(known, oldest, peer);
  if (!fault.culprit.empty()) return {fault.culprit, text + fault.text};
  return {said.culprit, fmt::format("{}, for {}", text, age_text(since(oldest.since, known.now)))};
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
            fmt::format("{} lost by reset, hang or removal, {} ago: what was on it has failed",
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
  if (const std::uint64_t idle = idle_time(p, known.now))
    return {"application",
            fmt::format("the application has not called the provider for {}, {} outstanding",
                        age_text(idle), counted(p.operations.size(), "operation"))};
  const auto lost = std::find_if(p.operations.begin(), p.operations.end(), has_lost_device);
  if (lost != p.operations.end())
    return {"device-lost", fmt::format("an operation's device (gaudi{}) is lost: in reset, hung or "
                                       "removed",
                                       lost->device)};
  if (!p.operations.empty()) return verdict_on(known, p.operations, "operation");
  if (!p.connections.empty()) return verdict_on(known, p.connections, "connection");
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
  static constexpr std::array<std::string_view, 14> names{
      "nothing",  "matching_receive", "peer_answer", "peer_data", "peer_slots",
      "peer_end", "network",          "device_copy", "staging",   "room",
      "credit",   "handshake",        "application", "memory"};
  const auto at = static_cast<std::size_t>(why);
  return at < names.size() ? names[at] : "unknown";
}

}  // namespace gaudi::top
