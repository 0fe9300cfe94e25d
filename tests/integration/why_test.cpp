// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whom gaudi_top --why blames, of processes that wait for each other.
#include "why.hpp"

#include <signal.h>

#include "faults.hpp"

namespace gaudi::test {
namespace {

TEST(why, a_receiver_that_posts_no_receive_is_named) {
  run({}, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      both.send_long(bytes);
      const std::string text = ask_until(::getpid(), "no-receive", [&] { both.n.poll(); });
      EXPECT_NE(text.find("process " + std::to_string(both.pids[1])), std::string::npos) << text;
    }
    r.barrier();
    if (r.id() == 1) both.receive_long(bytes);
    r.barrier();
  });
}

TEST(why, a_receiver_that_is_stopped_is_named_and_says_so_itself) {
  run({}, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      ::kill(both.pids[1], SIGSTOP);
      both.send_long(bytes);
      ask_until(::getpid(), "peer-stopped", [&] { both.n.poll(); });
      ask_until(both.pids[1], "stopped", [&] { both.n.poll(); });
      ::kill(both.pids[1], SIGCONT);
    } else {
      both.receive_long(bytes);
    }
    r.barrier();
  });
}

TEST(why, a_sender_without_credit_is_told_of_the_peer_that_takes_nothing) {
  run({}, [](rank& r) {
    two_processes both(r);
    if (r.id() == 0) {
      ::kill(both.pids[1], SIGSTOP);
      std::byte one{};
      while (fi_tinject(both.n.ep(), &one, 1, both.n.peer(1), 3) == 0) {
      }
      const auto work = [&] { both.n.poll(); };
      const auto said = ask_until_waits(::getpid(), "credit", work);
      EXPECT_EQ(said.at("culprit"), "peer-stopped");
      EXPECT_EQ(said.at("connections").at(0).at("credits"), 0);
      ::kill(both.pids[1], SIGCONT);
    }
    r.barrier();
  });
}

TEST(why, an_application_that_does_not_call_the_provider_is_named) {
  run({}, [](rank& r) {
    two_processes both(r);
    std::vector<std::byte> bytes(long_message);
    if (r.id() == 0) {
      both.send_long(bytes);
      const std::string text = ask_until(::getpid(), "application", [] {});
      EXPECT_NE(text.find("1 operation outstanding"), std::string::npos) << text;
    }
    r.barrier();
    if (r.id() == 1) both.receive_long(bytes);
    if (r.id() == 0) both.n.wait(ctx(2));
    r.barrier();
  });
}

TEST(why, a_receive_that_nothing_was_sent_for_is_told_from_nothing_at_all) {
  run({}, [](rank& r) {
    two_processes both(r);
    if (r.id() == 0) {
      const auto work = [&] { both.n.poll(); };
      ask_until(::getpid(), "nothing", work);
      std::byte one{};
      both.n.post(
          [&] { return fi_trecv(both.n.ep(), &one, 1, nullptr, both.n.peer(1), 9, 0, ctx(9)); });
      ask_until(::getpid(), "no-message", work);
    }
    r.barrier();
  });
}

class why_of_device : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

// At a kilobyte a millisecond, a copy of this takes far longer than the test.
TEST_F(why_of_device, a_copy_that_does_not_end_is_named_and_then_the_device_in_reset) {
  run({.environment = {{"HLSIM_D2H_GBPS", "0.001"}, {"FI_GAUDI_COPY_TIMEOUT", "0"}}}, [](rank& r) {
    two_processes both(r, {.device = true});
    memory own(both.n, 64 * long_message, true);
    const auto work = [&] { both.n.poll(); };
    if (r.id() == 1) {
      both.n.post([&] {
        return fi_trecv(both.n.ep(), own.at(0), 64 * long_message, own.desc(), both.n.peer(0), 2, 0,
                        ctx(2));
      });
    } else {
      both.n.post([&] {
        return fi_tsend(both.n.ep(), own.at(0), 64 * long_message, own.desc(), both.n.peer(1), 2,
                        ctx(2));
      });
      ask_until(::getpid(), "device", work);
    }
    r.barrier();
    if (r.id() == 1) ask_until(::getpid(), "peer-device", work);
    r.barrier();
    if (r.id() == 0) {
      strike("in-reset");
      ask_until(::getpid(), "device-lost", work);
      mend();
    }
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
