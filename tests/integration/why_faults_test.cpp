// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whom gaudi_top --why blames when something is broken: peers, connections, the network, memory.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "faults.hpp"
#include "limits.hpp"
#include "network_of_its_own.hpp"
#include "why.hpp"

namespace gaudi::test {
namespace {

// Of the core's connection to the peer, as the kernel does it when the network has gone for too
// long. What else this process has open is no TCP, or has no peer.
unsigned cut_connections() {
  unsigned cut = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET && ::shutdown(fd, SHUT_RDWR) == 0)
      ++cut;
  }
  return cut;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string process_text(pid_t pid) {
  return "process " + std::to_string(pid);
}

const world apart{.environment = {{"FI_GAUDI_IPC", "off"}, {"FI_GAUDI_RECONNECT_TIMEOUT", "3600"}}};

// As one on another host: its pages cannot be read from here.
void hide(const rank& r, int which) {
  if (r.id() == which) ::setenv("FI_GAUDI_COUNTERS", "off", 1);
}

class why_faults : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "gaudi's own report";
  }
};

TEST_F(why_faults, a_peer_that_is_not_seen_and_says_nothing_is_silent) {
  run(apart, [](rank& r) {
    hide(r, 1);
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      ::kill(both.pids[1], SIGSTOP);
      both.send_long(bytes);
      const std::string text = ask_until(::getpid(), "peer-silent", [&] { both.n.poll(); });
      EXPECT_TRUE(has(text, "1 operation waits for a matching receive at ")) << text;
      ::kill(both.pids[1], SIGCONT);
    } else {
      both.receive_long(bytes);
    }
    r.barrier();
  });
}

// Its operations have failed: what was there to say is said.
TEST_F(why_faults, a_peer_that_has_died_keeps_nobody) {
  run(apart, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 1) ::_exit(0);
    both.send_long(bytes);
    EXPECT_NE(both.n.wait(ctx(2)).err, 0);
    ask_until(::getpid(), "nothing", [&] { both.n.poll(); });
  });
}

TEST_F(why_faults, a_connection_that_was_lost_is_no_handshake) {
  run(apart, [](rank& r) {
    hide(r, 1);
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      ::kill(both.pids[1], SIGSTOP);
      both.send_long(bytes);
      both.n.poll();
      EXPECT_EQ(cut_connections(), 1U);
      const std::string text = ask_until(::getpid(), "connection-lost", [&] { both.n.poll(); });
      EXPECT_TRUE(has(text, " was lost ")) << text;
      EXPECT_TRUE(has(text, "is being made again, 1 operation waits for it; given up in ")) << text;
      ::kill(both.pids[1], SIGCONT);
      EXPECT_EQ(both.n.wait(ctx(2)).err, 0) << "it goes on";
      ask_until(::getpid(), "nothing", [&] { both.n.poll(); });
    } else {
      both.receive_long(bytes);
    }
    r.barrier();
  });
}

TEST_F(why_faults, a_connection_that_a_stopped_peer_does_not_make_again_is_the_peers_fault) {
  run(apart, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      ::kill(both.pids[1], SIGSTOP);
      both.send_long(bytes);
      both.n.poll();
      EXPECT_EQ(cut_connections(), 1U);
      // Until the report is younger than the handshake.
      ask_until_waits(::getpid(), "reconnection", [&] { both.n.poll(); });
      const std::string text = ask_until(::getpid(), "peer-stopped", [&] { both.n.poll(); });
      EXPECT_TRUE(has(text, process_text(both.pids[1]))) << text;
      EXPECT_TRUE(has(text, ", which is stopped (by a signal), was lost ")) << text;
      ::kill(both.pids[1], SIGCONT);
    } else {
      both.receive_long(bytes);
    }
    r.barrier();
  });
}

// Somebody who takes connections and says nothing: another program, or a host whose disk hangs.
TEST_F(why_faults, a_handshake_that_never_ends_is_named_with_its_limit) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_CONNECT_TIMEOUT", "3600"}}}, [](rank&) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    must(::bind(listener, reinterpret_cast<sockaddr*>(&name), size), "bind");
    must(::listen(listener, 8), "listen");
    must(::getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size), "getsockname");
    node n;
    fi_addr_t peer = FI_ADDR_NOTAVAIL;
    must(fi_av_insert(n.av(), &name, 1, &peer, 0, nullptr) - 1, "fi_av_insert");
    std::byte one{};
    n.post([&] { return fi_tsend(n.ep(), &one, 1, nullptr, peer, 1, ctx(1)); });
    const std::string text = ask_until(::getpid(), "handshake", [&] { n.poll(); });
    const std::string port = std::to_string(ntohs(name.sin_port));
    EXPECT_TRUE(has(text, "the connection with 127.0.0.1:" + port + " is being made for ")) << text;
    EXPECT_TRUE(has(text, ", 1 message waits for it; given up in ")) << text;
    ::close(listener);
  });
}

// It takes part in all but the one that is waited for.
TEST_F(why_faults, an_endpoint_that_its_application_forgets_is_told_from_one_that_it_progresses) {
  run({}, [](rank& r) {
    two_processes both(r);
    node other;
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      r.set_idle_work([&] { both.n.poll(); });
      both.send_long(bytes);
      const std::string text = ask_until(::getpid(), "peer-application", [&] { both.n.poll(); });
      EXPECT_TRUE(has(text, ", whose application has not progressed that endpoint for ")) << text;
    } else {
      r.set_idle_work([&] { other.poll(); });
    }
    r.barrier();
    r.set_idle_work([&] { other.poll(); });
    if (r.id() == 0) {
      const std::string text = ask_until(::getpid(), "application", [&] { other.poll(); });
      EXPECT_TRUE(has(text, "the application progresses other endpoints, and has not")) << text;
    }
    r.barrier();
    if (r.id() == 1) both.receive_long(bytes);
    if (r.id() == 0) both.n.wait(ctx(2));
    r.set_idle_work([] {});
    r.barrier();
  });
}

TEST_F(why_faults, a_receiver_without_memory_is_named_by_both) {
  run(apart, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(16000);
    std::optional<no_more_memory> limit;
    if (r.id() == 1) limit.emplace();
    r.barrier();
    if (r.id() == 0) {
      const auto send = [&] {
        both.n.poll();
        return fi_tinject(both.n.ep(), bytes.data(), 64, both.n.peer(1), 3) == 0 ||
               fi_tsend(both.n.ep(), bytes.data(), bytes.size(), nullptr, both.n.peer(1), 3,
                        ctx(3)) == 0;
      };
      ask_until(both.pids[1], "memory", send);
      const std::string text = ask_until(::getpid(), "peer-memory", send);
      EXPECT_TRUE(has(text, process_text(both.pids[1]))) << text;
    }
    r.barrier();
  });
}

// The oldest has the engine; the ones behind it lack the memory that is staged through.
TEST_F(why_faults, messages_that_find_no_staging_memory_are_told_of_the_engine_that_keeps_it) {
  world w = apart;
  w.environment.insert(w.environment.end(), {{"HLSIM_D2H_GBPS", "0.001"},
                                             {"FI_GAUDI_COPY_TIMEOUT", "0"},
                                             {"FI_GAUDI_STAGING_DEPTH", "2"}});
  run(w, [](rank& r) {
    constexpr std::size_t messages = 12;
    two_processes both(r, {.device = true});
    memory own(both.n, messages * long_message, r.id() == 0);
    const auto work = [&] { both.n.poll(); };
    r.set_idle_work(work);
    for (std::size_t i = 0; i < messages; ++i) {
      void* const at = own.at(i * long_message);
      both.n.post([&] {
        return r.id() == 0
                   ? fi_tsend(both.n.ep(), at, long_message, own.desc(), both.n.peer(1), 2, ctx(2))
                   : fi_trecv(both.n.ep(), at, long_message, own.desc(), both.n.peer(0), 2, 0,
                              ctx(2));
      });
    }
    if (r.id() == 0) {
      const std::string text = ask_until(::getpid(), "device", work);
      ask_until_waits(::getpid(), "staging", work);
      EXPECT_TRUE(has(text, "(gaudi0)")) << text;
      ask_until(both.pids[1], "peer-device", work);
    }
    r.barrier();
  });
}

TEST_F(why_faults, a_network_that_carries_nothing_is_blamed_and_no_process) {
  in_a_network_of_its_own([](loopback& net) {
    run(apart, [&](rank& r) {
      two_processes both(r);
      std::vector<std::byte> bytes(long_message);
      if (r.id() == 0) {
        net.set_up(false);
        both.send_long(bytes);
        const std::string text = ask_until(::getpid(), "network", [&] { both.n.poll(); });
        EXPECT_TRUE(has(text, "which has not got the message within ")) << text;
        net.set_up(true);
      }
      r.barrier();
      if (r.id() == 1) both.receive_long(bytes);
      if (r.id() == 0) {
        EXPECT_EQ(both.n.wait(ctx(2)).err, 0);
      }
      r.barrier();
    });
  });
}

TEST_F(why_faults, a_driver_that_does_not_come_back_is_named_of_both) {
  run(apart, [](rank& r) {
    two_processes both(r, {.device = true});
    std::vector<std::byte> bytes(long_message);
    const memory own(both.n, 64 << 10, true);
    if (r.id() == 0) strike("export-hang");
    r.barrier();
    if (r.id() == 0) {
      both.send_long(bytes);
      const auto work = [&] { both.n.poll(); };
      const std::string verdict = ask_until(both.pids[1], "driver", work);
      EXPECT_TRUE(has(verdict, "a thread has been exporting ")) << verdict;
      EXPECT_TRUE(has(verdict, " bytes of gaudi")) << verdict;
      const std::string own_verdict = ask_until(::getpid(), "peer-driver", work);
      EXPECT_TRUE(has(own_verdict, process_text(both.pids[1]))) << own_verdict;
      mend();
      EXPECT_EQ(both.n.wait(ctx(2)).err, 0);
    } else {
      fi_gaudi_dmabuf made{};
      EXPECT_EQ(both.n.ops().export_dmabuf(
                    both.n.domain(), reinterpret_cast<std::uint64_t>(own.at(0)), 64 << 10, &made),
                0);
      ::close(made.fd);
      both.receive_long(bytes);
    }
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
