// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/endpoint.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace gaudi::proto {
namespace {

// Depth of the memory shared with one peer, each way, in transfers at full depth: one transfer
// begins while another ends.
constexpr std::size_t shared_at_once = 2;

// Everything that is not bulk data fits, and two buffers never share a cache line.
std::size_t message_limit(std::size_t eager_size) {
  const std::size_t bytes = std::max(eager_size + sizeof(wire::eager_fields), wire::min_message);
  return (bytes + 63) & ~std::size_t{63};
}

connection_config terms_of(const core::inner_domain& core, const endpoint_settings& config,
                           receives_at_nics& receives) {
  return {.eager_limit = static_cast<std::uint32_t>(message_limit(config.eager_size)),
          .rx_buffers = config.rx_buffers,
          .kernel = config.kernel,
          .takes_dmabufs = config.kernel && config.dmabufs.imports,
          .slots = shared_at_once * config.staging_depth,
          .slot_size = config.staging_chunk,
          .rails = &config.rails,
          .moves_sessions = core.over_rdma() && config.rails.count > 1 && !config.rma_order,
          .receives = &receives,
          .limits = config.limits,
          .clock = config.clock,
          .random = config.random};
}

copy::copy_router::settings copies_of(const endpoint_settings& config) {
  return {.engines = config.copies,
          .loop = config.loop,
          .dmabufs = config.dmabufs.registrar,
          .flush = config.flush,
          .short_by_nic = config.rendezvous != base::rendezvous_choice::staged,
          .clock = config.clock};
}

base::result<void> open_other_nics(const rail_settings& rails, core_transport& transport,
                                   core_connector& connector) {
  for (const rail_interface& one : rails.others) {
    if (!one.nic) continue;
    const auto queue = transport.open_also(one.nic->core());
    if (!queue) return queue.failure();
    connector.use_nic(*one.nic, *queue);
  }
  return {};
}

// Out of buffers, or of room in the core: an application that only repeats the call must get there,
// too.
int progress_if_full(endpoint& e, int ret) {
  if (ret == -FI_EAGAIN) e.progress();
  return ret;
}

// Of a peer whose connection is not open, or that is none. `stalls` counts in vain.
base::result<connection*> wait_for_connection(endpoint& e, connection_manager& connections,
                                              peer_addresses& addresses, fi_addr_t to,
                                              std::uint64_t& stalls) {
  peer* const p = addresses.meet(to);
  if (!p) return base::error{-FI_EINVAL};
  auto c = connections.get_connection(*p);
  if (!c && c.code() != -FI_EAGAIN) return c;
  // An application that only repeats the send must get there, too.
  e.progress();
  c = connections.get_connection(*p);
  if (c && !(*c)->is_open()) {
    ++stalls;
    return base::error{-FI_EAGAIN};
  }
  return c;
}

}  // namespace

endpoint::endpoint(core::inner_domain& core, reg::key_table& keys,
                   const device::device_registry& devices, path_counters& paths,
                   const settings& config, const latency_histograms* latencies)
    : config_(config),
      telemetry_{paths, {config.clock, latencies}, {session_routes(&config_.rails), config.clock}},
      receive_buffers_(core, message_limit(config.eager_size), config.rx_buffers),
      connections_(std::make_unique<connection_manager>(core,
                                                        terms_of(core, config_, receive_buffers_),
                                                        static_cast<connection_observer&>(*this))),
      transport_(core, message_limit(config.eager_size), config.core_operations),
      shm_(*connections_, transport_, message_limit(config.eager_size), config.clock),
      copies_(copies_of(config), telemetry_.latencies, *this),
      channel_(*connections_, transport_, shm_, copies_, paths, *this),
      closer_(*connections_, channel_, config_.clock, config_.limits.most),
      addresses_(*connections_, closer_),
      transfers_(config_, {core, devices, *connections_, transport_, receive_buffers_, copies_,
                           channel_, paths, telemetry_.links, keys}),
      delivery_(config_, {*connections_, receive_buffers_, channel_, transfers_.table,
                          transfers_.mover, transfers_.sink, addresses_, telemetry_.latencies}),
      sender_(config_, {*connections_, transport_, shm_, copies_, channel_, paths, transfers_.table,
                        transfers_.completion, transfers_.source}),
      one_sided_(core, config_,
                 {*connections_, transport_, copies_, channel_, transfers_.table,
                  transfers_.completion, transfers_.direct, transfers_.mover, transfers_.source},
                 {*connections_, keys, channel_, transfers_.table, transfers_.completion,
                  transfers_.flush, transfers_.source, delivery_}),
      dispatcher_({*connections_, receive_buffers_, channel_, closer_, delivery_, sender_,
                   one_sided_.target, one_sided_.atomics, transfers_.packets, transfers_.sessions,
                   transfers_.rail_making}),
      goodbye_(config_, *connections_, transport_, channel_, sender_),
      report_({*connections_, transfers_.table, copies_, delivery_, transfers_.direct},
              config_.limits) {}

endpoint::~endpoint() {
  shut_down();
}

base::result<void> endpoint::enable(opening config) {
  base::result<void> opened = base::error{-FI_ENOMEM};
  try {
    opened = open(config);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (opened) return opened;
  // An attempt that failed leaves nothing behind, so that another one can be made.
  receive_buffers_.close();
  transport_.close();
  receive_buffers_.free_buffers();
  return opened;
}

base::result<void> endpoint::open(opening config) {
  const std::size_t receives = receive_buffers::max_at_core(transport_.core(), config_.rx_buffers);
  if (const auto opened = transport_.open(receives, config.waitable); !opened) return opened;
  if (const auto posted = receive_buffers_.open(); !posted) return posted;
  const auto listens = connections_->listen(transport_.queue(), receive_buffers_.context(),
                                            config.waitable, config.any_port);
  if (!listens) return listens;
  const auto others = open_other_nics(config_.rails, transport_, connections_->connector());
  if (!others) return others;
  telemetry_.links.set_listener(config.links);
  report_.open(config_.clock);
  if (!config.waitable) return {};
  const auto alarm = transfers_.links.open_alarm();
  if (!alarm) return alarm.failure();
  return transport_.open_wait_fds(connections_->connector().events(), *alarm);
}

bool endpoint::must_linger() {
  return connections_ && enabled() && goodbye_.must_linger();
}

void endpoint::shut_down() {
  if (!connections_) return;
  while (must_linger()) progress();
  addresses_.stop();
  report_.close();
  connections_->for_each([&](connection& c) {
    // Else the peer would try to make it again. Where there is no room it does, and is refused.
    if (c.usable()) static_cast<void>(transport_.send_header(c, wire::kind::leave));
    connections_->fail(c, FI_ECANCELED);
  });
  sender_.fail_early(FI_ECANCELED);
  one_sided_.ranges.fail_unposted(FI_ECANCELED);
  transfers_.mover.await_helpers();
  // The device must be done with our memory before it goes.
  copies_.end_all();
  connections_.reset();
  receive_buffers_.close();
  transport_.close();
  delivery_.leave();
  // Deregistration is a call of the core's: now, while the caller holds the domain lock.
  transfers_.close();
  one_sided_.initiator.free_buffers();
  receive_buffers_.free_buffers();
  transport_.free_buffers();
}

// At every operation: nearly always it is open.
[[gnu::always_inline]] inline base::result<connection*> endpoint::data_connection(fi_addr_t to) {
  if (connection* const open = addresses_.open_connection(to)) [[likely]]
    return open;
  return wait_for_connection(*this, *connections_, addresses_, to, telemetry_.paths.stalls.peer);
}

int endpoint::send(const local_memory& memory, const send_params& message) {
  using stream = latency_sampler::stream;
  if (telemetry_.latencies.is_due(stream::send)) [[unlikely]]
    return telemetry_.latencies.post(stream::send, latency_sampler::kind::message, message,
                                     [&](const send_params& timed) { return send(memory, timed); });
  const auto c = data_connection(message.to);
  if (!c && c.code() != -FI_EAGAIN) return c.code();
  if (!c) return sender_.send_early(*addresses_.find(message.to), memory, message);
  const int ret = sender_.send(**c, memory, message);
  if (ret == -FI_EAGAIN) ++telemetry_.paths.stalls.local;
  return progress_if_full(*this, ret);
}

int endpoint::write(const local_memory& memory, const rma_access& access) {
  using stream = latency_sampler::stream;
  if (telemetry_.latencies.is_due(stream::write)) [[unlikely]]
    return telemetry_.latencies.post(stream::write, latency_sampler::kind::rma_write, access,
                                     [&](const rma_access& timed) { return write(memory, timed); });
  const auto c = data_connection(access.target);
  return c ? progress_if_full(*this, one_sided_.initiator.write(**c, memory, access)) : c.code();
}

int endpoint::read(const local_memory& memory, const rma_access& access) {
  using stream = latency_sampler::stream;
  if (telemetry_.latencies.is_due(stream::read)) [[unlikely]]
    return telemetry_.latencies.post(stream::read, latency_sampler::kind::rma_read, access,
                                     [&](const rma_access& timed) { return read(memory, timed); });
  const auto c = data_connection(access.target);
  return c ? progress_if_full(*this, one_sided_.initiator.read(**c, memory, access)) : c.code();
}

int endpoint::access_ranges(rma_ranges::direction way, const local_memory& memory,
                            const rma_access& access, std::span<const fi_rma_iov> ranges) {
  const auto c = data_connection(access.target);
  return c ? progress_if_full(*this, one_sided_.ranges.start(way, **c, memory, access, ranges))
           : c.code();
}

int endpoint::atomic(const atomic_access& access) {
  const auto c = data_connection(access.target);
  return c ? progress_if_full(*this, one_sided_.atomics.request(**c, access)) : c.code();
}

bool endpoint::is_quiet(fi_addr_t with) {
  const peer* p = addresses_.find(with);
  const connection* c = p ? p->current : nullptr;
  const bool any_early = p && p->early != 0;
  const bool any_unposted = p && p->unposted != 0;
  if (!c && !any_early && !any_unposted) return true;
  const bool moving = any_early || any_unposted ||
                      std::any_of(c->transfers.begin(), c->transfers.end(),
                                  [](const transfer& t) { return !t.for_peer_hook.is_linked(); });
  if (!moving && c->at_core.posted.empty() && c->at_core.direct == 0 && c->outbox.ordered.empty())
    return true;
  progress();
  return false;
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
  for_peer_list& for_peers = transfers_.table.for_peers();
  for (;;) {
    const auto user = std::find_if(for_peers.begin(), for_peers.end(), uses);
    if (user == for_peers.end()) return;
    if (!user->ending.begun) {
      transfers_.completion.complete(*user, FI_ECANCELED);
    } else if (user->connection && config_.clock.now() > give_up) {
      connections_->fail(*user->connection, FI_ECONNABORTED);
    } else {
      progress();
    }
  }
}

}  // namespace gaudi::proto
