// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "worker_pool.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <thread>
#include <utility>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using common::failure;
using nlohmann::json;

// How long others have to say what happened to them, once one has failed.
constexpr std::chrono::milliseconds hearing{200};

constexpr std::chrono::milliseconds between_looks{50};

/// Says already whom it is about.
class named_failure : public failure {
 public:
  using failure::failure;
};

/// Calls it; what fails says `name`.
template <class Call>
auto naming(const std::string& name, Call&& call) {
  try {
    return call();
  } catch (const common::peer_failure& error) {
    throw named_failure(fmt::format("{}: {}", name, error.reason()));
  } catch (const named_failure&) {
    throw;
  } catch (const std::exception& error) {
    throw named_failure(fmt::format("{}: {}", name, error.what()));
  }
}

// As the peers of a worker that ends say.
bool names_lost_connection(const std::string& reason) {
  const auto names = [&reason](int error) {
    return reason.find(fi_strerror(error)) != std::string::npos;
  };
  return names(FI_ECONNRESET) || names(FI_ECONNREFUSED) || names(FI_ECONNABORTED);
}

}  // namespace

worker_pool::worker_pool(const settings& s, std::vector<side> sides,
                         std::function<void()> idle_work)
    : settings_(s), sides_(std::move(sides)), idle_work_(std::move(idle_work)) {
  for (std::size_t i = 0; i < sides_.size(); ++i) homes_.insert(homes_.end(), sides_[i].workers, i);
}

void worker_pool::start_all() {
  for (unsigned number = 0; number < size(); ++number) {
    channels_.push_back(home_of(number).start(number));
    set_up(number);
  }
}

std::string worker_pool::name_of(unsigned number) const {
  const std::string& name = sides_[homes_[number]].name;
  return name.empty() ? fmt::format("worker {}", number)
                      : fmt::format("worker {} ({})", number, name);
}

void worker_pool::set_up(unsigned number) {
  channels_[number].set_idle_work(
      [this] {
        idle_work_();
        require_all_there();
      },
      between_looks);
  send(number,
       {{"settings", settings_}, {"number", number}, {"address", sides_[homes_[number]].address}});
}

// The answer that is waited for may depend on one that never comes.
void worker_pool::require_all_there() {
  if (const auto lost = find_lost_side()) throw named_failure(*lost);
  for (unsigned number = 0; number < channels_.size(); ++number) {
    try {
      if (channels_[number].peer_gone())
        throw named_failure(name_of(number) + ": the connection to it is lost");
    } catch (const common::peer_failure& error) {
      throw named_failure(fmt::format("{}: {}", name_of(number), error.reason()));
    }
  }
}

void worker_pool::send(unsigned number, const json& order) {
  naming(name_of(number), [&] { channels_[number].send(order); });
}

json worker_pool::receive(unsigned number) {
  return naming(name_of(number), [&] { return channels_[number].receive(); });
}

void worker_pool::replace(unsigned number) {
  home_of(number).kill(number);
  channels_[number] = home_of(number).start(number);
  set_up(number);
}

void worker_pool::reset_device(unsigned number, int index) {
  home_of(number).reset_device(index);
}

void worker_pool::mend_devices(unsigned number) {
  home_of(number).mend_devices();
}

void worker_pool::end_all() {
  for (unsigned number = 0; number < size(); ++number) send(number, {{"end", true}});
  for (unsigned number = 0; number < size(); ++number)
    if (const auto why = home_of(number).join(number))
      throw named_failure(fmt::format("{}: {}", name_of(number), *why));
}

void worker_pool::print(const std::string& line) {
  for (const side& one : sides_) one.machine->print(line);
}

// A worker that crashed says nothing, and those that miss it do.
std::string worker_pool::find_cause(const std::string& reported) {
  std::this_thread::sleep_for(hearing);
  if (const auto lost = find_lost_side()) return *lost;
  if (const auto crash = find_crash()) return *crash;
  if (!names_lost_connection(reported)) return reported;
  for (unsigned number = 0; number < channels_.size(); ++number) {
    const std::string other = last_words(number);
    if (!other.empty() && !names_lost_connection(other))
      return fmt::format("{}: {}", name_of(number), other);
  }
  return reported;
}

std::optional<std::string> worker_pool::find_lost_side() {
  for (const side& one : sides_)
    if (auto why = one.machine->why_gone()) return why;
  return std::nullopt;
}

std::optional<std::string> worker_pool::find_crash() {
  for (unsigned number = 0; number < channels_.size(); ++number) {
    try {
      if (const auto why = home_of(number).why_crashed(number))
        return fmt::format("{}: {}", name_of(number), *why);
    } catch (const failure&) {
      // Its machine cannot be asked any more; what was reported stands.
    }
  }
  return std::nullopt;
}

// Why a worker has failed whose answer was not waited for.
std::string worker_pool::last_words(unsigned number) {
  try {
    channels_[number].peer_gone();
  } catch (const common::peer_failure& error) {
    return error.reason();
  }
  return {};
}

}  // namespace gaudi::stress
