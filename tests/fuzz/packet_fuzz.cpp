// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets of a connected peer, as many as the input has: each is a byte with its length in units of
// four and its bytes. The endpoint has operations of every kind under way, so that answers to them
// mean something.
#include <array>
#include <cstdlib>

#include "hostile_peer.hpp"

namespace gaudi::proto {
namespace {

using test::raw_client;
using test::victim;

constexpr std::size_t unit = 4;
constexpr std::size_t long_message = 100000;  // goes by rendezvous
constexpr std::size_t max_packets = 32;

void give_up(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

struct scene {
  victim v;
  std::vector<std::byte> source = std::vector<std::byte>(long_message);
  std::vector<std::byte> sink = std::vector<std::byte>(long_message);
  std::uint64_t instance = 1000;

  [[nodiscard]] completion_spec reported() {
    return {.queue = &v.queue, .context = this, .report = true};
  }
  [[nodiscard]] static local_memory memory(std::vector<std::byte>& bytes, std::size_t length) {
    return local_memory::of_host(bytes.data(), length);
  }

  /// Operations towards the peer, and receives for what it sends.
  void start(fi_addr_t to) {
    send_params message{.to = to, .tag = 1, .completion = reported()};
    message.wire_flags = wire::tagged;
    v.ep->send(memory(source, long_message), message);
    message.delivery = true;
    v.ep->send(memory(source, 100), message);
    rma_access access{.target = to, .address = 0, .key = 5, .completion = reported()};
    v.ep->read(memory(sink, 64), access);
    v.ep->write(memory(source, long_message), access);
    atomic_access atomic{
        .group = atomic_math::call::fetching, .target = to, .address = 0, .key = 5};
    atomic.type = FI_UINT64;
    atomic.count = 1;
    atomic.operands = memory(source, 8);
    atomic.results = memory(sink, 8);
    atomic.completion = reported();
    v.ep->atomic(atomic);
    for (const std::size_t room : {16UL, long_message}) {
      v.ep->receives().receive(memory(sink, room),
                               {.ignore = ~0ULL, .tagged = true, .completion = reported()});
      v.ep->receives().receive(memory(sink, room), {.completion = reported()});
    }
  }

  void settle(raw_client& peer) {
    v.ep->progress();
    peer.progress();
    while (!v.queue.empty()) v.queue.pop();
  }

  void run(const std::uint8_t* bytes, std::size_t length) {
    // A port of its own for each, as a new process would have.
    const hello ours = test::greeting(1024 + ++instance % 60000);
    hello theirs{};
    raw_client peer;
    if (peer.connect(v, &ours, sizeof ours, theirs) != FI_CONNECTED) give_up("no connection");
    const auto to = v.addresses.add(address_of(ours));
    if (!to) give_up("no address");
    start(*to);
    for (std::size_t packets = 0; length > 1 && packets < max_packets && !peer.shut; ++packets) {
      const std::size_t size = std::min<std::size_t>(bytes[0] * unit, length - 1);
      alignas(8) std::array<std::byte, 256 * unit> packet{};
      std::memcpy(packet.data(), bytes + 1, size);
      auto& head = *reinterpret_cast<wire::header*>(packet.data());
      if (head.connection == 0) head.connection = theirs.connection;
      peer.send(packet.data(), size);
      settle(peer);
      bytes += 1 + size;
      length -= 1 + size;
    }
    for (int i = 0; i < 4; ++i) settle(peer);
    peer.ep.reset();
    while (v.ep->receives().cancel(this) == 0) continue;
    settle(peer);
    if (!v.addresses.remove(*to)) give_up("address not removed");
  }
};

}  // namespace
}  // namespace gaudi::proto

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t length) {
  static auto* const where = new gaudi::proto::scene;
  where->run(bytes, length);
  return 0;
}
