// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lets one allocation of the provider's fail, each in a process of its own, from fi_getinfo to
// fi_close. Whatever it is for, the call or the operation fails, or goes on without: nothing
// crashes, hangs, or brings other bytes than were sent.
#include <rdma/fabric.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "failing_allocations.hpp"
#include "traffic.hpp"

namespace {

using gaudi::test::outcome;

constexpr std::chrono::seconds longest_child{60};

/// The child's part. `n` 0: how many allocations there are, in `count`.
int run_one(bool device, std::size_t n, int report) {
  fi_info* info = nullptr;
  fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &info);
  fi_freeinfo(info);
  if (!gaudi::test::find_provider()) return 2;
  gaudi::test::fail_allocation(n);
  const outcome ended = gaudi::test::run_traffic(device);
  const std::size_t count = gaudi::test::count_allocations();
  if (::write(report, &count, sizeof count) != sizeof count) return 2;
  return static_cast<int>(ended);
}

struct verdict {
  std::string what;
  std::size_t count = 0;
};

// Its exit code is its outcome; the time is for a hang, not for a slow machine.
verdict judge(pid_t child, int report) {
  const auto give_up = std::chrono::steady_clock::now() + longest_child;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return {"hangs"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  verdict v;
  if (::read(report, &v.count, sizeof v.count) != sizeof v.count) v.count = 0;
  if (WIFSIGNALED(status)) return {std::string("crashes: ") + ::strsignal(WTERMSIG(status))};
  switch (static_cast<outcome>(WEXITSTATUS(status))) {
    case outcome::done:
      v.what = "done without";
      break;
    case outcome::refused:
      v.what = "refused";
      break;
    case outcome::wrong:
      v.what = "wrong";
      break;
    case outcome::stuck:
      v.what = "hangs";
      break;
    default:
      v.what = "ends with code " + std::to_string(WEXITSTATUS(status));
  }
  return v;
}

verdict run_child(bool device, std::size_t n) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int code = run_one(device, n, ends[1]);
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  verdict v = judge(child, ends[0]);
  ::close(ends[0]);
  return v;
}

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

// memory_sweep host|device [EVERY [FIRST]]; with MEMORY_SWEEP_TRACE in the environment each prints
// the stack of the allocation that failed.
int main(int count, char** arguments) {
  const bool device = count > 1 && std::string_view(arguments[1]) == "device";
  const std::size_t every = count > 2 ? number(arguments[2]) : 1;
  const std::size_t first = count > 3 ? number(arguments[3]) : 1;
  const verdict whole = run_child(device, 0);
  if (whole.what != "done without" || whole.count == 0 || every == 0) {
    std::printf("without a failed allocation: %s, %zu allocations\n", whole.what.c_str(),
                whole.count);
    return 1;
  }
  std::map<std::string, std::size_t> results;
  bool good = true;
  for (std::size_t n = first; n <= whole.count; n += every) {
    const verdict v = run_child(device, n);
    ++results[v.what];
    if (v.what == "refused" || v.what == "done without") continue;
    good = false;
    std::printf("allocation %zu: %s\n", n, v.what.c_str());
  }
  std::printf("%zu allocations:", whole.count);
  for (const auto& [what, times] : results) std::printf(" %zu %s", times, what.c_str());
  std::printf("\n");
  return good ? 0 : 1;
}
