// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tour.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/sizes.hpp"
#include "report.hpp"
#include "session.hpp"

namespace gaudi::perf {
namespace {

using common::kib;
using common::mib;

// From a single byte over the eager sizes to what needs pipelining.
constexpr std::array<std::size_t, 6> sizes{1, 512, 4 * kib, 64 * kib, mib, 64 * mib};

// Bytes that one row moves per measurement, and in one window: the whole tour is to take seconds.
constexpr std::size_t row_volume = 64 * mib;
constexpr std::uint64_t max_iterations = 200;
constexpr std::size_t window = 16;
constexpr std::size_t max_slots_of_a_row = 64;

struct memory_pair {
  memory_kind client;
  memory_kind server;
};

constexpr std::array<memory_pair, 4> pairs{{{memory_kind::host, memory_kind::host},
                                            {memory_kind::device, memory_kind::device},
                                            {memory_kind::host, memory_kind::device},
                                            {memory_kind::device, memory_kind::host}}};

constexpr std::array toured_operations{operation::tagged, operation::write, operation::read};

step tour_step(operation op, std::size_t size) {
  const std::size_t slots = std::clamp<std::size_t>(row_volume / size, 2, max_slots_of_a_row);
  return {.op = op,
          .size = size,
          .iterations = std::clamp<std::uint64_t>(row_volume / size, 2, max_iterations),
          .warmup = 1,
          .window = std::min(window, slots),
          .slots = slots,
          .bidirectional = false,
          .check = true};
}

std::size_t tour_capacity() {
  std::size_t capacity = 0;
  for (const std::size_t size : sizes)
    capacity = std::max(capacity, size * tour_step(operation::tagged, size).slots);
  return capacity;
}

void print_title(const side& client, const side& server) {
  fmt::print("{} ({}), two processes on this machine\n", client.provider, client.domain);
  fmt::print("  client: {}\n", client.device.empty() ? "no Gaudi" : client.device);
  fmt::print("  server: {}\n", server.device.empty() ? "no Gaudi" : server.device);
  fmt::print("Every byte of every operation is verified. MB/s = 10^6 bytes/s.\n\n");
  if (!client.copies || !server.copies)
    fmt::print(
        "Device memory is left out: a Gaudi3 offers no copies through libhl-thunk, so its bytes\n"
        "cannot be set and verified. Without --check, --memory device measures it on an RDMA\n"
        "NIC that reaches it.\n\n");
  fmt::print("{:<10} {:<18} {:>8} {:>12} {:>10}  {}\n", "operation", "client -> server", "size",
             "latency us", "MB/s", "path");
}

void print_row(operation op, const memory_pair& pair, const measurement& m) {
  const char* arrow = op == operation::read ? "<-" : "->";
  fmt::print("{:<10} {:<18} {:>8} {:>12.2f} {:>10.1f}  {}\n", name_of(op),
             fmt::format("{} {} {}", name_of(pair.client), arrow, name_of(pair.server)),
             common::size_text(m.size), m.latency.median, m.megabytes_per_second,
             m.path.empty() ? "not told" : m.path);
  std::fflush(stdout);
}

// Each wait of ours is bounded; this one ends a process that is stuck inside the library.
void rearm_watchdog(std::chrono::seconds timeout) {
  alarm(static_cast<unsigned>(3 * timeout.count()));
}

void run_pair(session& work, const memory_pair& pair, bool client, std::chrono::seconds timeout) {
  work.use_memory(client ? pair.client : pair.server, tour_capacity());
  for (const operation op : toured_operations) {
    for (const std::size_t size : sizes) {
      rearm_watchdog(timeout);
      const measurement result = work.run(tour_step(op, size));
      if (client) print_row(op, pair, result);
    }
    if (client) fmt::print("\n");
  }
}

void run_on(oob_channel& oob, const options& chosen, bool device, bool client) {
  session work({.ep = {.provider = chosen.provider, .device = device, .source = {}},
                .timeout = chosen.timeout},
               oob, client);
  endpoint& ep = work.first_endpoint();
  const side own = describe(ep, device ? memory_kind::device : memory_kind::host);
  const side peer = oob.exchange(own).get<side>();
  if (client) print_title(own, peer);

  const std::size_t count = device && own.copies && peer.copies ? pairs.size() : 1;
  for (const memory_pair& pair : std::span(pairs).first(count))
    run_pair(work, pair, client, chosen.timeout);
  oob.barrier();
}

void run_side(const options& chosen, descriptor socket, bool client) {
  rearm_watchdog(chosen.timeout);
  setenv("FI_GAUDI_DEVICE", client ? "0" : "1", 1);
  const bool device = chosen.provider == "gaudi";
  oob_channel oob(std::move(socket), chosen.timeout);
  try {
    run_on(oob, chosen, device, client);
  } catch (const peer_failure&) {
    throw;
  } catch (const std::exception& error) {
    oob.tell_failure(error.what());
    throw;
  }
}

pid_t start_side(const options& chosen, descriptor& socket, descriptor& other, bool client) {
  const pid_t pid = fork();
  if (pid < 0) throw failure(fmt::format("fork: {}", std::strerror(errno)));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  other = descriptor();
  int code = EXIT_SUCCESS;
  try {
    run_side(chosen, std::move(socket), client);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gaudi_perf: {}: {}\n", client ? "client" : "server", error.what());
    code = EXIT_FAILURE;
  }
  std::fflush(stdout);
  // Runs what libfabric does at exit, and nothing of the parent's.
  std::exit(code);
}

bool ended_well(pid_t pid, const char* role) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    fmt::print(stderr, "gaudi_perf: the {} was ended by signal {} ({})\n", role, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
  return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

}  // namespace

int run_tour(const options& chosen) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw failure(fmt::format("socketpair: {}", std::strerror(errno)));
  descriptor client_socket(sockets[0]);
  descriptor server_socket(sockets[1]);
  const pid_t server = start_side(chosen, server_socket, client_socket, false);
  const pid_t client = start_side(chosen, client_socket, server_socket, true);
  client_socket = descriptor();
  server_socket = descriptor();
  const bool client_well = ended_well(client, "client");
  const bool server_well = ended_well(server, "server");
  if (!client_well || !server_well) return EXIT_FAILURE;
  fmt::print("All operations gave the right bytes.\n");
  return EXIT_SUCCESS;
}

}  // namespace gaudi::perf
