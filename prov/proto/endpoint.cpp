// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/endpoint.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/log.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t largest_inline = 256;  // the stack packets in send.cpp and control.cpp
constexpr std::size_t buffers_per_slab = 64;
constexpr std::size_t send_buffer_limit = 4096;
constexpr std::size_t chunks_per_slab = 4;
constexpr std::size_t injected_limit = 256;
// Some cores keep lengths in 32 bits, whatever they say.
constexpr std::size_t max_operation = std::size_t{1} << 30;
// For all peers together, where the core's completion queue does not grow.
constexpr std::size_t operations_at_core = 4096;
// Depth of both pools of staging memory together, in transfers at full depth.
constexpr std::size_t staged_at_once = 8;
// That of the memory shared with one peer, each way: one transfer begins while another ends.
constexpr std::size_t shared_at_once = 2;

// Everything that is not bulk data fits, and two buffers never share a cache line.
std::size_t message_limit(std::size_t eager_size) {
  const std::size_t bytes = std::max(eager_size + sizeof(wire::eager_fields), wire::min_message);
  return (bytes + 63) & ~std::size_t{63};
}

// Before libfabric 1.18 tcp looks for data with one poll(2) over the sockets of all connections, a
// tenth of a microsecond for each, where nobody can wait for the queue; else it keeps an epoll set.
bool polls_each_socket(const core::inner_domain& core) noexcept {
  return !core.over_rdma() && fi_version() < FI_VERSION(1, 18);
}

connection_manager::config terms_of(const endpoint_settings& config, std::size_t message_limit) {
  return {.eager_limit = static_cast<std::uint32_t>(message_limit),
          .rx_buffers = config.rx_buffers,
          .ipc = config.ipc,
          .takes_dmabufs = config.ipc && config.imports,
          .slots = shared_at_once * config.staging_depth,
          .slot_size = config.staging_chunk,
          .connect_timeout = config.connect_timeout,
          .clock = config.clock,
          .random = config.random};
}

}  // namespace

endpoint::endpoint(core::inner_domain& core, reg::key_table& keys, path_counters& paths,
                   settings config)
    : core_(core),
      keys_(keys),
      paths_(paths),
      config_(config),
      message_limit_(message_limit(config.eager_size)),
      own_receives_(std::make_unique<receive_context>(config.eager_size)),
      receives_(own_receives_.get()),
      unexpected_(config.unexpected_limit),
      copies_(config.copies, config.loop, *this),
      nic_copies_(config.copies,
                  config.rendezvous == base::rendezvous_choice::staged ? nullptr : config.loop,
                  config.flush, copies_),
      connections_(std::make_unique<connection_manager>(core_, terms_of(config_, message_limit_),
                                                        static_cast<connection_observer&>(*this))),
      closer_(*connections_, *this, config_.clock) {
  receives_->add(*this);
  const auto limit = staged_at_once * config_.staging_depth;
  send_buffers_ = std::make_unique<buffer_pool>(core_, posted_op::kind::message, message_limit_,
                                                buffers_per_slab, send_buffer_limit);
  chunks_ = std::make_unique<staging_pool>(core_, config_.staging_chunk, chunks_per_slab, limit);
  slots_ = std::make_unique<staging_pool>(core_, config_.staging_chunk, chunks_per_slab, limit,
                                          FI_REMOTE_WRITE);
  injected_ = std::make_unique<staging_pool>(core_, max_inject, buffers_per_slab, injected_limit);
}

endpoint::~endpoint() {
  shut_down();
}

void endpoint::shut_down() {
  if (!connections_) return;
  while (must_linger()) progress();
  if (addresses_) addresses_->unsubscribe(*this);
  connections_->for_each([&](connection& c) { connections_->fail(c, FI_ECANCELED); });
  early_.fail_all(FI_ECANCELED);
  await_helpers();
  // The device must be done with our memory before it goes.
  copies_.end_all();
  connections_.reset();
  if (receive_buffers_) receive_buffers_->close();
  core_queue_.reset();
  free_transfers();
  // Deregistration is a call of the core's: now, while the caller holds the domain lock.
  receive_buffers_.reset();
  send_buffers_.reset();
  chunks_.reset();
  slots_.reset();
  injected_.reset();
}

// The pools free memory, not objects.
void endpoint::free_transfers() {
  stalled_.clear();
  for_peers_.clear();
  transfers_.for_each([&](transfer& t) { transfer_pool_.destroy(&t); });
  receives_->remove(*this);
}

void endpoint::share_receives(receive_context& with) {
  receives_->remove(*this);
  own_receives_.reset();
  receives_ = &with;
  receives_->add(*this);
  for (const auto& p : connections_->peers()) p->number = number_of(p->name);
}

void endpoint::quiesce_region(const reg::region& r) {
  // Answers to reads are loaded by the device without a transfer; it ends by itself, soon.
  copies_.finish_those_of(r);
  const auto uses = [&](const transfer& t) {
    for (std::size_t i = 0; i < t.memory.count(); ++i) {
      if (t.memory[i].registered == &r) return true;
    }
    return false;
  };
  const auto give_up = config_.clock.now() + std::chrono::seconds(1);
  for (;;) {
    const auto user = std::find_if(for_peers_.begin(), for_peers_.end(), uses);
    if (user == for_peers_.end()) return;
    if (!user->ending) {
      complete(*user, FI_ECANCELED);
    } else if (user->connection && config_.clock.now() > give_up) {
      connections_->fail(*user->connection, FI_ECONNABORTED);
    } else {
      progress();
    }
  }
}

void endpoint::use_addresses(address_vector& av) {
  for (fi_addr_t i = 0; i < av.end(); ++i) {
    if (const net_address* known = av.find(i)) added(i, *known);
  }
  av.subscribe(*this);
  addresses_ = &av;
}

base::result<void> endpoint::enable(opening config) {
  base::result<void> opened = base::error{-FI_ENOMEM};
  try {
    opened = open_core(config);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (opened) return opened;
  // An attempt that failed leaves nothing behind, so that another one can be made.
  receive_buffers_.reset();
  core_queue_.reset();
  wait_fds_.clear();
  return opened;
}

base::result<void> endpoint::open_core(opening config) {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = config.waitable || polls_each_socket(core_) ? FI_WAIT_FD : FI_WAIT_NONE;
  // Each receive that is posted, and each operation that we have the core do, takes one entry.
  attr.size = receive_buffers::max_at_core(core_, config_.rx_buffers) + operations_at_core;
  core_operations_ = config_.core_operations ? config_.core_operations
                     : core_.over_rdma()     ? operations_at_core
                                             : SIZE_MAX;
  fid_cq* queue = nullptr;
  if (const int ret = fi_cq_open(core_.domain(), &attr, &queue, nullptr)) return base::error{ret};
  core_queue_.reset(queue);

  receive_buffers_ = std::make_unique<receive_buffers>(core_, message_limit_, config_.rx_buffers);
  if (const auto posted = receive_buffers_->open(); !posted) return posted;
  inline_limit_ = core_.info().tx_attr->inject_size;
  core_length_ = std::min(core_.info().ep_attr->max_msg_size, max_operation);
  core_inject_ = std::min(core_.info().tx_attr->inject_size, largest_inline);

  const auto listens =
      connections_->listen(queue, receive_buffers_->context(), config.waitable, config.any_port);
  if (!listens || !config.waitable) return listens;
  for (fid* f : {&core_queue_->fid, connections_->events()}) {
    int fd = -1;
    if (const int ret = fi_control(f, FI_GETWAIT, &fd)) {
      GAUDI_WARN(EP_CTRL, "the core provider has no file descriptor to wait on: %s\n",
                 fi_strerror(-ret));
      return base::error{ret};
    }
    wait_fds_.push_back(fd);
  }
  return {};
}

}  // namespace gaudi::proto
