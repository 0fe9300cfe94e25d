// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/core/network.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

// Whatever number a descriptor has in whichever process, it is the same file.
std::uint64_t inode_of(int fd) noexcept {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

void host::kill() {
  alive_ = false;
  std::erase_if(net_.listeners(), [&](const auto& one) { return one.second->at == this; });
  for (const auto& wire : std::vector(net_.connections())) {
    for (int end = 0; end < 2; ++end) {
      if (wire->ends[end].at == this) wire->cut();
    }
  }
}

void host::look() {
  if (!alive_) return owed_.clear();
  net_.advance(net_.numbers().below(net_.how().max_look + 1));
  looking_ = true;
  for (const auto& [wire, sender] : std::exchange(owed_, {})) wire->drain(sender);
  looking_ = false;
}

// Each further look within one call takes twice the time of the last: who waits gets to its limit.
base::clock::time_point host::now() noexcept {
  const nanoseconds step = nanoseconds{1'000} << std::min(reads_++, 28u);
  if (alive_) {
    net_.advance(step);
  } else {
    after_death_ += step;
  }
  return base::clock::time_point(std::chrono::nanoseconds(net_.now() + after_death_));
}

std::uint64_t host::next() noexcept {
  return net_.numbers().next();
}

void network::calm() noexcept {
  how_.forged = 0;
  how_.composed = 0;
  how_.refused_posts = 0;
  how_.lost_writers = 0;
  how_.refused_sharing = 0;
  how_.denied_memory = 0;
}

void network::exports(int fd, std::shared_ptr<std::vector<std::byte>> bytes) {
  exported_[inode_of(fd)] = std::move(bytes);
}

std::shared_ptr<std::vector<std::byte>> network::exported(int fd) const {
  const auto found = exported_.find(inode_of(fd));
  return found == exported_.end() ? nullptr : found->second;
}

bool network::is_lost_memory(const std::byte* place) const noexcept {
  return std::any_of(lost_memory_.begin(), lost_memory_.end(), [&](const auto& bytes) {
    return place >= bytes->data() && place < bytes->data() + bytes->size();
  });
}

void network::at(nanoseconds when, std::function<void()> what) {
  due_.push({std::max(when, now_), next_number(), std::move(what)});
}

void network::advance(nanoseconds by) {
  const nanoseconds until = now_ + by;
  while (!due_.empty() && due_.top().when <= until) {
    now_ = due_.top().when;
    const auto what = std::move(due_.top().what);
    due_.pop();
    what();
  }
  now_ = until;
}

host& network::add_host(unsigned number, std::uint16_t port) {
  hosts_.push_back(std::make_unique<host>(*this, number, port));
  return *hosts_.back();
}

std::shared_ptr<wire_connection> network::pick(unsigned a, unsigned b, std::uint64_t which) const {
  std::vector<std::shared_ptr<wire_connection>> between;
  for (const auto& wire : connections_) {
    if (wire->is_cut || !wire->ends[0].at || !wire->ends[1].at) continue;
    const unsigned x = wire->ends[0].at->number();
    const unsigned y = wire->ends[1].at->number();
    if ((x == a && y == b) || (x == b && y == a)) between.push_back(wire);
  }
  if (between.empty()) return nullptr;
  // There is little RMA, and much goes on with what is lost of it.
  const auto is_idle = [](const auto& wire) { return !wire->carries_rma(); };
  if (which % 2 != 0 && !std::all_of(between.begin(), between.end(), is_idle))
    std::erase_if(between, is_idle);
  return between[which / 2 % between.size()];
}

bool network::cut_connection(unsigned a, unsigned b, std::uint64_t which) {
  const auto wire = pick(a, b, which);
  if (wire) wire->cut();
  return wire != nullptr;
}

bool network::silence_connection(unsigned a, unsigned b, std::uint64_t which) {
  // Within one NIC there is no link.
  const auto wire = a == b ? nullptr : pick(a, b, which);
  // The end of one that is closing goes another way than its data.
  if (!wire || !wire->ends[0].ep || !wire->ends[1].ep) return false;
  wire->is_silent = true;
  note(wire->ends[0].at->number(), wire->ends[1].at->number(), [] { return "-- silence --"; });
  return true;
}

void network::unplug(unsigned host, unsigned interface) {
  unplugged_.insert({host, interface});
  note(host, host, [&] { return "loses the link of interface " + std::to_string(interface); });
  for (const auto& wire : std::vector(connections_)) {
    if (!wire->has_link()) wire->lose_link();
  }
}

// Who forges packets may have peers write over memory of his own.
void network::wrote(const host& at, const std::byte* target, std::size_t length,
                    std::uint64_t number, bool late) {
  if (!how_.late_data || forges(at)) return;
  const bool is_overtaken = std::any_of(landed_.begin(), landed_.end(), [&](const landed& w) {
    return w.number > number && w.target < target + length && target < w.target + w.length;
  });
  if (late && is_overtaken) complain("a write that was lost comes after one in its place");
  landed_.push_back({target, length, number});
}

bool network::has_delivered(const host& of) const noexcept {
  return std::all_of(connections_.begin(), connections_.end(), [&](const auto& wire) {
    return std::all_of(wire->ends.begin(), wire->ends.end(),
                       [&](const wire_end& end) { return end.at != &of || end.sent.empty(); });
  });
}

bool network::holds_anything_back() const noexcept {
  return std::any_of(connections_.begin(), connections_.end(), [](const auto& wire) {
    return wire->is_silent && !wire->is_cut &&
           (!wire->ends[0].sent.empty() || !wire->ends[1].sent.empty());
  });
}

bool network::alter(const host& sender, std::vector<std::byte>& packet, std::size_t room) {
  if (how_.forged == 0 && how_.composed == 0) return true;
  forger_.overhear(packet, forges(sender));
  if (!forges(sender)) return true;
  if (how_.composed != 0 && numbers_.chance(how_.composed)) {
    forger_.compose(numbers_, how_.favourite, packet, room);
    return true;
  }
  if (!numbers_.chance(how_.forged)) return true;
  return forger_.forge(numbers_, packet, room);
}

void network::alter_hello(const host& sender, std::vector<std::byte>& said) {
  if (!said.empty() && forges(sender) && numbers_.chance(how_.forged))
    packet_forger::forge_hello(numbers_, said);
}

std::string network::open_fids() const {
  for (const auto& h : hosts_) {
    if (h->open_fids() != 0)
      return std::string(1, static_cast<char>('A' + h->number())) + " has left " +
             std::to_string(h->open_fids()) + " objects of the core open";
  }
  return {};
}

void network::complain(std::string what) {
  if (complaint_.empty()) complaint_ = std::move(what);
}

}  // namespace gaudi::sim
