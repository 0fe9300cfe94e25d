// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A client with the calls of AWS's plugin for NCCL in both its protocols: nccl/README.md says what
// it follows.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "nccl/rdma.hpp"
#include "nccl/sendrecv.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::array<std::size_t, 6> sizes{1, 4, 4096, 65537, 1U << 20U, 4U << 20U};
constexpr std::size_t max_size = sizes.back();
constexpr unsigned rounds = 20;

// Others of libfabric's providers take FI_HMEM, too.
world plugin_world() {
  return {.ranks = 2, .environment = {{"FI_PROVIDER", "gaudi"}}};
}

info_ptr chosen(nccl::protocol p) {
  info_ptr found = nccl::choose(p);
  if (!found) throw std::runtime_error("the plugin finds no provider");
  return found;
}

template <class Value>
Value of_peer(rank& r, const Value& own) {
  const auto all = r.all_gather({reinterpret_cast<const char*>(&own), sizeof own});
  Value value;
  std::memcpy(&value, all.at(static_cast<std::size_t>(1 - r.id())).data(), sizeof value);
  return value;
}

std::uint64_t seed_of(int sender, unsigned round, std::size_t size) {
  return static_cast<std::uint64_t>(sender) + 2 * (round * sizes.size() + size);
}

/// A buffer of the host's or of the device's, as a tensor would be.
class tensor {
 public:
  tensor(fid_domain* domain, bool device) {
    if (device)
      device_ = std::make_unique<nccl::device_memory>(domain, max_size);
    else
      host_.resize(max_size);
  }
  [[nodiscard]] std::span<std::byte> range(std::size_t size = max_size) {
    return device_ ? device_->range().first(size) : std::span(host_).first(size);
  }
  void put(const bytes& what) {
    if (device_)
      device_->put(what);
    else
      std::copy(what.begin(), what.end(), host_.begin());
  }
  [[nodiscard]] bytes get(std::size_t size) const {
    return device_ ? device_->get(size)
                   : bytes(host_.begin(), host_.begin() + static_cast<std::ptrdiff_t>(size));
  }

 private:
  bytes host_;
  std::unique_ptr<nccl::device_memory> device_;
};

class nccl_client : public testing::TestWithParam<bool> {};

TEST_P(nccl_client, sends_and_receives_by_tags_and_flushes) {
  const bool device = GetParam();
  run(plugin_world(), [&](rank& r) {
    const info_ptr info = chosen(nccl::protocol::sendrecv);
    nccl::sendrecv plugin(info.get());
    r.set_idle_work([&] { plugin.progress(); });
    plugin.connect(of_peer(r, plugin.handle()));
    tensor out(plugin.domain(), device);
    tensor in(plugin.domain(), device);
    const auto out_mr = plugin.register_buffer(out.range(), device);
    const auto in_mr = plugin.register_buffer(in.range(), device);
    for (unsigned round = 0; round < rounds; ++round) {
      for (const std::size_t size : sizes) {
        out.put(bytes_of(seed_of(r.id(), round, size), size));
        nccl::request received;
        nccl::request sent;
        plugin.receive(in.range(), in_mr.get(), received);
        plugin.send(out.range(size), out_mr.get(), sent);
        plugin.wait(received);
        if (device) plugin.flush(in.range(), in_mr.get());
        EXPECT_EQ(received.length, size);
        expect_same(bytes_of(seed_of(1 - r.id(), round, size), size), in.get(size), "a message");
        plugin.wait(sent);
      }
    }
    r.barrier();
  });
}

TEST_P(nccl_client, writes_stripes_with_immediate_data_and_flushes) {
  const bool device = GetParam();
  run(plugin_world(), [&](rank& r) {
    const info_ptr info = chosen(nccl::protocol::rdma);
    nccl::rdma plugin(info.get());
    r.set_idle_work([&] { plugin.progress(); });
    plugin.connect(of_peer(r, plugin.own_address()));
    tensor out(plugin.domain(), device);
    tensor in(plugin.domain(), device);
    const auto out_mr = plugin.register_buffer(out.range(), device);
    const auto in_mr = plugin.register_buffer(in.range(), device);
    unsigned number = 0;
    for (unsigned round = 0; round < rounds; ++round) {
      for (const std::size_t size : sizes) {
        out.put(bytes_of(seed_of(r.id(), round, size), size));
        plugin.receive(in.range(size), in_mr);
        plugin.send(out.range(size), out_mr, size <= nccl::rdma::max_eager && round % 2 == 0);
        EXPECT_EQ(plugin.wait_received(number++), size);
        plugin.flush();
        expect_same(bytes_of(seed_of(1 - r.id(), round, size), size), in.get(size), "a message");
      }
    }
    plugin.close();
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(memory, nccl_client, testing::Bool(),
                         [](const auto& device) { return device.param ? "device" : "host"; });

}  // namespace
}  // namespace gaudi::test
