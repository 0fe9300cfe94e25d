// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interruption.hpp"

#include <signal.h>

#include <initializer_list>

namespace gaudi::stress {
namespace {

volatile sig_atomic_t came = 0;

void remember(int) noexcept {
  came = 1;
}

}  // namespace

interruption::interruption() noexcept {
  came = 0;
  struct sigaction once {};
  once.sa_handler = remember;
  once.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &once, nullptr);
}

interruption::~interruption() {
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
}

bool interruption::has_come() const noexcept {
  return came != 0;
}

void leave_interruptions_to_leader() noexcept {
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_DFL);
}

}  // namespace gaudi::stress
