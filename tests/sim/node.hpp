// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/tcp_streams.hpp"
#include "device/device_registry.hpp"
#include "proto/endpoint.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/import_cache.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/write_flush.hpp"
#include "sim/core/network.hpp"
#include "sim/device/simulated_device.hpp"
#include "sim/ledger.hpp"
#include "sim/machine/simulated_kernel.hpp"
#include "sim/plan.hpp"

namespace gaudi::sim {

/// What kernels know of connections over a stream.
struct simulated_streams final : core::tcp_streams {
  std::chrono::milliseconds unacknowledged_for(fid_ep& connection) noexcept override;
};

/// One life of an endpoint, with what an application has beside it: a region that peers may use, an
/// address vector with all nodes, a completion queue.
class node {
 public:
  node(network& net, machines& all, const plan& p, ledger& book, unsigned number, unsigned life);
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  [[nodiscard]] unsigned number() const noexcept { return number_; }
  [[nodiscard]] unsigned life() const noexcept { return life_; }
  [[nodiscard]] proto::endpoint& endpoint() noexcept { return *endpoint_; }
  [[nodiscard]] host& at() noexcept { return host_; }
  [[nodiscard]] std::span<const std::byte> region() const noexcept { return exposed_; }
  [[nodiscard]] std::uint64_t dmabufs_read() const noexcept { return paths_.dmabuf_ipc_ops; }
  [[nodiscard]] std::uint64_t sessions_moved() const noexcept { return paths_.again.elsewhere; }

  /// -FI_EAGAIN: to be repeated. All else is in the ledger.
  int start(record& r, const node* peer);
  void progress();
  /// The end of its turn, where it is not honest.
  void forge();
  /// As a thread that waits for its descriptors once there is nothing to do.
  void try_to_sleep();
  [[nodiscard]] bool is_asleep() noexcept;
  /// Removes the address of a peer, and inserts it again.
  void forget(unsigned peer);
  void know(unsigned peer);
  /// Its device fails, if it has one.
  void reset(bool is_told);
  /// Takes what has ended.
  void collect();
  /// Completes all that is still posted.
  void cancel_receives();
  /// As an application that closes its endpoint, or one that is killed.
  void close();
  void kill();

 private:
  int start_message(record& r);
  int start_receive(record& r);
  int start_peek(record& r);
  int start_access(record& r, const node& peer);
  int start_atomic(record& r, const node& peer);
  int cancel_oldest();
  void take_claimed(record& r);
  proto::completion_spec asked(record& r, std::uint64_t flags);
  void expose();
  void reach_device(proto::endpoint::settings& settings);
  void take_dmabufs(proto::endpoint::settings& settings);
  /// As much of its memory as the operation wants, once.
  void give_memory(record& r, std::size_t length);
  void register_memory(record& r);
  [[nodiscard]] proto::local_memory memory_of(record& r) const;
  void open_other_nics();
  [[nodiscard]] std::size_t interfaces_beside(unsigned number) const noexcept;

  network& net_;
  const plan& plan_;
  ledger& book_;
  const unsigned number_;
  const unsigned life_;
  host& host_;
  std::optional<simulated_kernel> kernel_;
  std::unique_ptr<core::inner_domain> core_;
  std::vector<std::unique_ptr<reg::other_nic>> other_nics_;
  reg::key_table keys_;
  device::device_registry devices_;
  proto::path_counters paths_;
  proto::address_vector addresses_;
  proto::completion_queue queue_{8};
  std::optional<reg::dmabuf_registrar> dmabufs_;  // outlives the registrations
  std::optional<simulated_device> device_;
  // Of a NIC that reaches the device.
  std::optional<reg::nic_loopback> loop_;
  std::optional<reg::write_flush> flush_;
  std::optional<reg::import_cache> imports_;
  bool has_lost_device_ = false;
  bool is_asleep_ = false;
  static constexpr nanoseconds never = ~nanoseconds{0};
  nanoseconds wakes_at_ = never;
  std::vector<std::byte> exposed_here_;
  std::span<std::byte> exposed_;
  reg::region region_;
  std::deque<reg::region> registered_;
  simulated_streams streams_;
  std::optional<proto::endpoint> endpoint_;
};

}  // namespace gaudi::sim
