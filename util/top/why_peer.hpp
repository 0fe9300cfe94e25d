// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

#include "why.hpp"

namespace gaudi::top {

constexpr std::uint64_t second = 1'000'000'000;  // ns

/// How long ago that was; both in nanoseconds.
inline std::uint64_t since(std::uint64_t at, std::uint64_t now) {
  return now > at ? now - at : 0;
}

bool is_stopped(const outstanding_view& p);

/// How long nobody has progressed the endpoint, who was to do so; 0: not for long.
std::uint64_t idle_time(const base::outstanding::record& endpoint, std::uint64_t now);
/// The same of all of a process's endpoints together.
std::uint64_t idle_time(const outstanding_view& p, std::uint64_t now);

/// The peer of a record, where it is a process of this host.
struct peer_process {
  const outstanding_view* process = nullptr;
  const base::outstanding::record* endpoint = nullptr;
};

peer_process find_peer(const evidence& known, const base::outstanding::record& of);
/// "127.0.0.1:200 (process 2, app)"
std::string peer_text(const base::outstanding::record& r, const peer_process& peer);

/// Why a peer of this host does nothing; no culprit: no reason is seen. The text follows its name.
verdict fault_of_process(const peer_process& peer, std::uint64_t now);
/// What is the matter with a peer that something waits for; no culprit: nothing that is seen.
verdict fault_of_peer(const evidence& known, const base::outstanding::record& waits,
                      const peer_process& peer);

}  // namespace gaudi::top
