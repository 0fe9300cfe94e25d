// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Lets one allocation of the provider's fail, each in a process of its own, from fi_getinfo to
// fi_close. Whatever it is for, the call or the operation fails, or goes on without: nothing
// crashes, hangs, brings other bytes than were sent, or keeps what it has taken.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "failing_allocations.hpp"
#include "traffic.hpp"

namespace {

using gaudi::test::outcome;

using traffic = std::function<outcome()>;

constexpr std::chrono::seconds max_child{120};
// Exit codes besides those of outcome.
constexpr int not_run = 2;
constexpr int works_no_more = 3;

/// What a child tells when everything is closed.
struct account {
  std::size_t allocations = 0;
  std::map<std::uintptr_t, std::size_t> blocks;    // gaudi::test::live_allocations
  std::map<std::string, std::size_t> descriptors;  // open ones, by what they are
};

template <class Name>
std::size_t count_all(const std::map<Name, std::size_t>& of) {
  std::size_t all = 0;
  for (const auto& [name, count] : of) all += count;
  return all;
}

constexpr int close_wait = 8;  // TCP_CLOSE_WAIT of <netinet/tcp.h>, which knows no bytes_acked

/// A socket that libfabric forgot: it accepted a connection whose request had not come when the
/// listener was closed, and tells nobody of it (tcp of 1.17 to 2.1; xnet_pep_abort_conns ends them
/// in later ones). Nothing was ever sent by it, and the peer has gone.
bool is_forgotten_request(int descriptor) {
  tcp_info state{};
  socklen_t length = sizeof state;
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &state, &length) == 0 &&
         state.tcpi_state == close_wait && state.tcpi_bytes_acked == 0;
}

/// What is open, one to a line: "socket", "anon_inode", or a file's name.
std::string list_descriptors() {
  const std::string own = "/proc/" + std::to_string(::getpid()) + "/fd";
  std::string all;
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_closed;
    const std::string target = std::filesystem::read_symlink(open, is_closed);
    if (target == own || is_forgotten_request(std::stoi(open.path().filename()))) continue;
    all += target.substr(0, target.find(":[")) + "\n";
  }
  return all;
}

using number_pair = std::array<std::size_t, 2>;

bool tell(int end, std::size_t first, std::size_t second) {
  const number_pair both{first, second};
  return ::write(end, both.data(), sizeof both) == sizeof both;
}

bool tell(int end, const std::string& text) {
  return ::write(end, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::string read_rest(int end) {
  std::string all;
  std::array<char, 4096> some;
  for (ssize_t n; (n = ::read(end, some.data(), some.size())) > 0;)
    all.append(some.data(), static_cast<std::size_t>(n));
  return all;
}

account read_account(int end) {
  account told;
  number_pair both{};
  if (::read(end, both.data(), sizeof both) != sizeof both) return told;
  told.allocations = both[0];
  for (std::size_t blocks = both[1]; blocks > 0; --blocks) {
    if (::read(end, both.data(), sizeof both) != sizeof both) return told;
    told.blocks[both[0]] = both[1];
  }
  std::istringstream open(read_rest(end));
  for (std::string what; std::getline(open, what);) ++told.descriptors[what];
  return told;
}

/// The child's part. `n` 0: none fails. Whatever became of that run, the next one is as if nothing
/// had been, and what the process keeps is all there after it.
int run_one(const traffic& run, std::size_t n, int report) {
  fi_info* info = nullptr;
  fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &info);
  fi_freeinfo(info);
  if (!gaudi::test::find_provider()) return not_run;
  gaudi::test::fail_allocation(n);
  const outcome ended = run();
  const std::size_t allocations = gaudi::test::count_allocations();
  gaudi::test::fail_allocation(0);
  const bool is_good = ended == outcome::done || ended == outcome::refused;
  if (is_good && run() != outcome::done) return works_no_more;
  const auto blocks = gaudi::test::live_allocations();
  bool told = tell(report, allocations, blocks.size());
  for (const auto& [place, count] : blocks) told = told && tell(report, place, count);
  told = told && tell(report, list_descriptors());
  return told ? static_cast<int>(ended) : not_run;
}

struct verdict {
  std::string what;
  account left;
};

std::string outcome_name(int code) {
  if (code == works_no_more) return "works no more afterwards";
  switch (static_cast<outcome>(code)) {
    case outcome::done:
      return "done without";
    case outcome::refused:
      return "refused";
    case outcome::wrong:
      return "wrong";
    case outcome::stuck:
      return "hangs";
  }
  return "ends with code " + std::to_string(code);
}

// The time is for a hang, not for a slow machine.
std::string judge(pid_t child) {
  const auto give_up = std::chrono::steady_clock::now() + max_child;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return "hangs";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFSIGNALED(status)) return std::string("crashes: ") + ::strsignal(WTERMSIG(status));
  return outcome_name(WEXITSTATUS(status));
}

verdict run_child(const traffic& run, std::size_t n) {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int code = run_one(run, n, ends[1]);
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::close(ends[1]);
  const std::string what = judge(child);
  verdict v{what, read_account(ends[0])};
  ::close(ends[0]);
  return v;
}

/// The simulated devices of this test alone: where another has the first one, finding the next
/// takes descriptors of its own.
class own_devices {
 public:
  own_devices() {
    std::string path = "/dev/shm/hlsim-sweep-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    ::setenv("HLSIM_DIR", path.c_str(), 1);
    path_ = path;
  }
  ~own_devices() { std::filesystem::remove_all(path_); }
  own_devices(const own_devices&) = delete;
  own_devices& operator=(const own_devices&) = delete;

 private:
  std::filesystem::path path_;
};

bool is_good(const verdict& v) {
  return v.what == "refused" || v.what == "done without";
}

std::string text_of(std::uintptr_t place) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "those from 0x%zx", place);
  return text.data();
}

std::string text_of(const std::string& descriptor) {
  return descriptor;
}

/// Where it is that more is left. A list that has grown at another place is among them.
template <class Name>
void print_places(const std::map<Name, std::size_t>& left,
                  const std::map<Name, std::size_t>& allowed) {
  for (const auto& [name, count] : left) {
    const auto at = allowed.find(name);
    const std::size_t most = at == allowed.end() ? 0 : at->second;
    if (count > most)
      std::printf("  %zu more are left of %s\n", count - most, text_of(name).c_str());
  }
}

bool is_more(const account& left, const account& allowed) {
  return count_all(left.blocks) > count_all(allowed.blocks) ||
         count_all(left.descriptors) > count_all(allowed.descriptors);
}

/// Whether more is left than after a run in which nothing failed.
bool leaks(const account& left, const account& allowed) {
  if (!is_more(left, allowed)) return false;
  std::printf("%zu blocks and %zu descriptors are left instead of %zu and %zu\n",
              count_all(left.blocks), count_all(left.descriptors), count_all(allowed.blocks),
              count_all(allowed.descriptors));
  print_places(left.blocks, allowed.blocks);
  print_places(left.descriptors, allowed.descriptors);
  return true;
}

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

// memory_sweep host|device|mixed|objects|device_objects|connected manual|auto [EVERY [FIRST]]:
// whose memory there is at both sides, or from the host to a device, or what else there is to open,
// or connected endpoints; who progresses. With MEMORY_SWEEP_TRACE in the environment each prints
// the stack of the allocation that failed.
int main(int count, char** arguments) {
  const auto says = [&](int i, std::string_view word) { return count > i && arguments[i] == word; };
  const bool is_device = says(1, "device") || says(1, "device_objects");
  const gaudi::test::variant how{.from_device = is_device,
                                 .to_device = is_device || says(1, "mixed"),
                                 .automatic = says(2, "auto")};
  traffic run = [&] { return gaudi::test::run_traffic(how); };
  if (says(1, "connected")) run = gaudi::test::run_connected_traffic;
  if (says(1, "objects") || says(1, "device_objects")) {
    run = [&] { return gaudi::test::run_objects_traffic(how); };
    ::setenv("FI_GAUDI_DEVICE", "all", 1);
  }
  const std::size_t every = count > 3 ? number(arguments[3]) : 1;
  const std::size_t first = count > 4 ? number(arguments[4]) : 1;
  const own_devices devices;
  // The first process of a stand-in's directory makes the devices there, and later ones open them.
  run_child(run, 0);
  const verdict whole = run_child(run, 0);
  const std::size_t allocations = whole.left.allocations;
  if (whole.what != "done without" || allocations == 0 || every == 0) {
    std::printf("without a failed allocation: %s, %zu allocations\n", whole.what.c_str(),
                allocations);
    return 1;
  }
  std::map<std::string, std::size_t> results;
  bool good = true;
  for (std::size_t n = first; n <= allocations; n += every) {
    verdict v = run_child(run, n);
    if (is_good(v) && leaks(v.left, whole.left)) v.what = "leaks";
    ++results[v.what];
    if (is_good(v)) continue;
    good = false;
    std::printf("allocation %zu: %s\n", n, v.what.c_str());
  }
  std::printf("%zu allocations:", allocations);
  for (const auto& [what, times] : results) std::printf(" %zu %s", times, what.c_str());
  std::printf("\n");
  return good ? 0 : 1;
}
