// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/node.hpp"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "sim/audit.hpp"
#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

constexpr std::uint16_t first_port = 5000;
constexpr std::uint64_t ranges_one_in = 3;
constexpr std::size_t device_bytes = std::size_t{512} * 1024;
constexpr std::uint64_t requested_key = 77;
// Longer than a peer may take to close, which can be a call of many virtual seconds (host::now).
constexpr std::chrono::hours session_limit{10'000};
constexpr std::chrono::milliseconds silence_limit{20};
// As endpoints of libfabric have it (prov/fi/rdm/endpoint.cpp).
constexpr std::chrono::milliseconds linger_time{2000};

// What an engine needs no time of its own to be measured for.
copy::engine_config unmeasured() {
  copy::engine_config config;
  config.table.calibrate = false;
  return config;
}

constexpr std::chrono::hours for_ever{1000};

proto::endpoint::settings settings_of(const plan& p, host& h) {
  return {.directed_receive = true,
          .provider_keys = p.core_keys,
          .eager_size = p.eager_size,
          .max_by_ring = p.eager_size / 2,
          .staging_chunk = 4096,
          .staging_depth = 2,
          .rx_buffers = p.rx_buffers,
          .unexpected_limit = p.unexpected_limit,
          .refusals_before_waiting = p.refusals,
          .linger = linger_time,
          .limits = {.connect_timeout = {},
                     .reconnect_timeout = p.net.sessions ? session_limit : std::chrono::seconds(0),
                     .link_timeout = p.net.sessions ? silence_limit : std::chrono::seconds(0),
                     .most = p.connections},
          .rails = {.count = p.rails,
                    .chunk = p.rail_chunk,
                    .others = {},
                    .pause = std::chrono::milliseconds(0),
                    .home_pause = p.comes_home ? std::chrono::milliseconds(0) : for_ever},
          .copies = unmeasured(),
          .rendezvous = p.rendezvous,
          .clock = base::clock(h),
          .random = base::random_source(h)};
}

proto::net_address name_of(unsigned number, unsigned interface = 0) {
  const sockaddr_in a =
      address_of(number, interface, static_cast<std::uint16_t>(first_port + number));
  return {&a, sizeof a};
}

proto::local_memory host_memory_of(std::span<std::byte> bytes,
                                   const reg::region* registered = nullptr) {
  return proto::local_memory::of({.address = reinterpret_cast<std::uint64_t>(bytes.data()),
                                  .length = bytes.size(),
                                  .registered = registered,
                                  .owner = nullptr});
}

// The same bytes as several ranges, the last of which is one byte.
std::vector<fi_rma_iov> in_ranges(const proto::rma_access& whole, std::size_t length) {
  const std::size_t first = (length - 1) / 2;
  return {{whole.address, first, whole.key},
          {whole.address + first, length - 1 - first, whole.key},
          {whole.address + length - 1, 1, whole.key}};
}

}  // namespace

std::chrono::milliseconds simulated_streams::unacknowledged_for(fid_ep& connection) noexcept {
  const auto& ep = down<core_endpoint>(&connection);
  return ep.wire && ep.wire->is_unacknowledged(ep.end) ? silence_limit
                                                       : std::chrono::milliseconds(0);
}

node::node(network& net, machines& all, const plan& p, ledger& book, unsigned number, unsigned life)
    : net_(net),
      plan_(p),
      book_(book),
      number_(number),
      life_(life),
      host_(net.add_host(number, static_cast<std::uint16_t>(first_port + number))),
      core_(std::move(*core::inner_domain::open_over(
          net.fabric_for(host_), net.info_for(host_), base::random_source(host_),
          p.net.reads_badly ? FI_VERSION(1, 17) : FI_VERSION(2, 1)))) {
  for (unsigned n = 0; n < p.nodes; ++n) static_cast<void>(addresses_.add(name_of(n)));
  if (!p.devices.empty() && p.devices[number]) device_.emplace(net, p.copies, device_bytes);
  auto settings = settings_of(p, host_);
  if (device_ && p.is_reached(number)) reach_device(settings);
  if (p.passes_dmabufs) take_dmabufs(settings);
  if (p.railless == number) settings.rails.count = 1;
  expose();
  open_other_nics();
  if (!p.machines.empty()) settings.kernel = &kernel_.emplace(all, host_, p.machines[number]);
  // The interfaces of NICs come first, as world::unplug has them.
  unsigned interface = 0;
  for (const auto& nic : other_nics_)
    settings.rails.others.push_back({name_of(number, ++interface), nic.get()});
  interface = static_cast<unsigned>(p.other_nics);
  for (std::size_t n = interfaces_beside(number); n > 0; --n)
    settings.rails.others.push_back({name_of(number, ++interface), nullptr});
  if (!p.net.rdma) settings.rails.streams = &streams_;
  endpoint_.emplace(*core_, keys_, devices_, paths_, settings);
  endpoint_->use_addresses(addresses_);
  endpoint_->messages().use_queue(&queue_, false);
  // Where the core refuses the first receive there is none yet, and the endpoint says so.
  for (int tries = 0; tries < 100 && !endpoint_->enabled(); ++tries)
    static_cast<void>(endpoint_->enable({.waitable = !p.sleepers.empty() && p.sleepers[number]}));
  if (!endpoint_->enabled()) book_.fail("an endpoint that cannot be enabled");
}

void node::reach_device(proto::endpoint::settings& settings) {
  devices_.add(device_->shared());
  dmabufs_.emplace(*core_, base::dmabuf_choice::on, reg::cache_limits{});
  if (!device_->make_known(*dmabufs_)) book_.fail("a NIC that does not know its device");
  const base::clock clock(host_);
  loop_.emplace(*core_, clock);
  flush_.emplace(*loop_, base::flush_choice::read, nullptr, clock);
  settings.loop = &*loop_;
  settings.flush = &*flush_;
}

// Of peers on its machine, by its NIC's loopback; and they may have its own.
void node::take_dmabufs(proto::endpoint::settings& settings) {
  if (!loop_) loop_.emplace(*core_, base::clock(host_));
  imports_.emplace(*core_, reg::cache_limits{.count = 1, .bytes = ~std::uint64_t{0}});
  settings.loop = &*loop_;
  settings.dmabufs = {.are_passed = true, .imports = &*imports_};
}

// Nodes have different numbers of them.
std::size_t node::interfaces_beside(unsigned number) const noexcept {
  if (plan_.railless == number) return 0;
  return plan_.other_interfaces - (plan_.other_interfaces > 1 && number % 2 != 0);
}

void node::open_other_nics() {
  if (plan_.railless == number_) return;
  const std::size_t count = plan_.other_nics - (plan_.other_nics > 1 && number_ % 2 != 0);
  while (other_nics_.size() < count) {
    auto domain = core::inner_domain::open_beside(*core_, net_.info_for(host_));
    other_nics_.push_back(std::make_unique<reg::other_nic>(
        std::move(*domain), other_nics_.size() + 1,
        reg::other_nic::settings{.cache = {}, .windows = {}, .clock = base::clock(host_)}));
  }
}

void node::expose() {
  const bool on_device = device_ && plan_.device_regions[number_];
  if (on_device) {
    exposed_ = device_->take(region_bytes);
    region_.address = device_->address_of(exposed_.data());
    region_.owner = &device_->gaudi();
  } else {
    exposed_here_.resize(region_bytes);
    exposed_ = exposed_here_;
    region_.address = reinterpret_cast<std::uint64_t>(exposed_.data());
  }
  fill(exposed_.subspan(cell_bytes + written_bytes), read_pattern);
  region_.length = exposed_.size();
  region_.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
  region_.virtual_address = true;
  if (!on_device)
    region_.core =
        std::move(*core_->register_memory(exposed_.data(), exposed_.size(), region_.access));
  else if (dmabufs_ && !device_->make_known(region_, *dmabufs_))
    book_.fail("a region that no NIC reaches");
  if (plan_.core_keys) {
    keys_.add_chosen_here(region_);
  } else {
    static_cast<void>(keys_.add_requested(region_, requested_key));
  }
}

void node::give_memory(record& r, std::size_t length) {
  if (!r.memory.empty()) return;
  if (length == 0) return;
  const std::size_t whole = length + record::guard_bytes;
  if (r.asked.on_device && !has_lost_device_) {
    if (const auto taken = device_->take(whole); !taken.empty()) {
      r.device_bytes = device_->bytes();
      return r.take(taken);
    }
  }
  r.bytes.resize(whole);
  r.take(r.bytes);
  if (plan_.registers) register_memory(r);
}

// Every other one for peers, too, but not where one of them lies: he may do with it as he likes.
void node::register_memory(record& r) {
  reg::region& made = registered_.emplace_back();
  made.address = reinterpret_cast<std::uint64_t>(r.bytes.data());
  made.length = r.bytes.size();
  made.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
  if (r.number % 2 != 0 && !plan_.forger) made.access |= FI_REMOTE_READ | FI_REMOTE_WRITE;
  auto mr = core_->register_memory(r.bytes.data(), r.bytes.size(), made.access);
  if (!mr) return book_.fail("host memory that cannot be registered");
  made.core = std::move(*mr);
  r.registered = &made;
}

proto::local_memory node::memory_of(record& r) const {
  return r.device_bytes ? device_->memory_of(r.memory) : host_memory_of(r.memory, r.registered);
}

proto::completion_spec node::asked(record& r, std::uint64_t flags) {
  return {.queue = &queue_, .context = &r, .flags = flags, .report = true};
}

int node::start(record& r, const node* peer) {
  host_.begin_call();
  is_asleep_ = false;
  // Its bytes are as they were at the first try.
  int ret = 0;
  switch (r.asked.what) {
    case action::kind::send:
      r.peer_life = peer ? peer->life() : ~0u;
      ret = start_message(r);
      break;
    case action::kind::receive:
    case action::kind::receive_many:
      ret = start_receive(r);
      break;
    case action::kind::peek:
      ret = start_peek(r);
      break;
    case action::kind::write:
    case action::kind::read:
      ret = peer ? start_access(r, *peer) : -FI_EAGAIN;
      break;
    case action::kind::atomic:
      ret = peer ? start_atomic(r, *peer) : -FI_EAGAIN;
      break;
    case action::kind::cancel:
      return cancel_oldest();
  }
  if (ret == -FI_EAGAIN) {
    r.now = record::state::waiting;
  } else if (ret != 0) {
    book_.refused(r, -ret);
  }
  return ret;
}

// The ledger has to know of it before the call: it may end in it.
int node::start_message(record& r) {
  const action& a = r.asked;
  if (r.memory.empty()) {
    give_memory(r, a.length);
    fill(r.memory, r.number);
  }
  book_.started(r);
  std::uint8_t flags = 0;
  if (a.tagged) flags |= proto::wire::tagged;
  if (a.has_data) flags |= proto::wire::cq_data;
  return endpoint_->send(memory_of(r), {.to = a.peer,
                                        .tag = a.tag,
                                        .data = a.has_data ? r.number : 0,
                                        .wire_flags = flags,
                                        .inject = a.inject,
                                        .transmit = a.transmit,
                                        .delivery = a.delivery,
                                        .completion = asked(r, FI_SEND)});
}

int node::start_receive(record& r) {
  const action& a = r.asked;
  give_memory(r, a.length);
  book_.started(r);
  const proto::recv_params wanted{.from = a.any_peer ? FI_ADDR_UNSPEC : a.peer,
                                  .tag = a.tag,
                                  .ignore = a.ignore,
                                  .tagged = a.tagged,
                                  .completion = asked(r, FI_RECV)};
  if (a.what == action::kind::receive_many)
    return endpoint_->receives().receive_many(memory_of(r), wanted);
  return endpoint_->receives().receive(memory_of(r), wanted);
}

int node::start_peek(record& r) {
  const action& a = r.asked;
  book_.started(r);
  const proto::recv_params wanted{.from = a.any_peer ? FI_ADDR_UNSPEC : a.peer,
                                  .tag = a.tag,
                                  .ignore = a.ignore,
                                  .tagged = a.tagged,
                                  .completion = asked(r, FI_RECV)};
  endpoint_->progress();
  return endpoint_->receives().peek(wanted, a.claim, a.discard && !a.claim);
}

// What a peek has claimed is received, or thrown away, at once, under the peek's context.
void node::take_claimed(record& r) {
  r.is_claim = true;
  r.now = record::state::started;
  if (r.match) r.match->is_taken = false;
  r.match = nullptr;
  r.asked.claim = false;
  if (!r.asked.discard) {
    r.asked.what = action::kind::receive;
    give_memory(r, r.asked.length);
  }
  const proto::recv_params wanted{
      .tag = r.asked.tag, .tagged = r.asked.tagged, .completion = asked(r, FI_RECV)};
  if (endpoint_->receives().receive_claimed(memory_of(r), wanted, r.asked.discard) != 0)
    book_.fail(ledger::name(r) + ": what was claimed cannot be received");
}

int node::start_access(record& r, const node& peer) {
  const action& a = r.asked;
  const bool writes = a.what == action::kind::write;
  if (r.memory.empty()) {
    give_memory(r, a.length);
    if (writes) fill(r.memory, r.number);
  }
  r.peer_life = peer.life();
  book_.started(r);
  const proto::rma_access access{.target = a.peer,
                                 .address = peer.region_.address + a.offset,
                                 .key = peer.region_.key,
                                 .data = a.has_data ? r.number : 0,
                                 .has_data = a.has_data,
                                 .inject = a.inject,
                                 .delivery = a.delivery,
                                 .completion = asked(r, FI_RMA)};
  const auto memory = memory_of(r);
  if (r.number % ranges_one_in == 0 && a.length > 1)
    return endpoint_->access_ranges(
        writes ? proto::rma_ranges::direction::write : proto::rma_ranges::direction::read, memory,
        access, in_ranges(access, a.length));
  return writes ? endpoint_->write(memory, access) : endpoint_->read(memory, access);
}

int node::start_atomic(record& r, const node& peer) {
  const action& a = r.asked;
  give_memory(r, 16);
  const std::uint64_t operand = std::uint64_t{1} << a.bit;
  std::memcpy(r.memory.data(), &operand, sizeof operand);
  r.peer_life = peer.life();
  book_.started(r);
  using proto::atomic_math::call;
  proto::atomic_access access;
  access.group = a.fetch ? call::fetching : call::plain;
  access.target = a.peer;
  access.address = peer.region_.address;
  access.key = peer.region_.key;
  access.type = FI_UINT64;
  access.op = FI_SUM;
  access.count = 1;
  access.operands = host_memory_of(r.memory.first(8));
  if (a.fetch) access.results = host_memory_of(r.memory.subspan(8));
  access.completion = asked(r, FI_ATOMIC);
  return endpoint_->atomic(access);
}

int node::cancel_oldest() {
  for (record& r : book_.all()) {
    if (r.node != number_ || r.life != life_ || !r.is_receive() || !r.is_open() || r.is_claim)
      continue;
    if (endpoint_->receives().cancel(&r) == 0) book_.cancelled(r);
    return 0;
  }
  return 0;
}

void node::cancel_receives() {
  host_.begin_call();
  is_asleep_ = false;
  for (record& r : book_.all()) {
    if (r.node == number_ && r.life == life_ && r.is_receive() && r.is_open() && !r.is_claim &&
        endpoint_->receives().cancel(&r) == 0)
      book_.cancelled(r);
  }
}

void node::progress() {
  host_.begin_call();
  is_asleep_ = false;
  endpoint_->progress();
}

void node::try_to_sleep() {
  if (plan_.sleepers.empty() || !plan_.sleepers[number_]) return;
  host_.begin_call();
  const bool has_rung = net_.now() >= wakes_at_;
  std::vector<int> ready = host_.readable();
  if (has_rung) ready.push_back(proto::endpoint_audit::alarm_fd(*endpoint_));
  // As fi::domain::try_wait does.
  const int ret =
      endpoint_->try_wait(net_.how().rdma ? base::ready_fds::of(ready) : base::ready_fds::any());
  collect();
  if (ret != 0) return;
  const auto alarm = proto::endpoint_audit::alarm(*endpoint_).count();
  const auto latest = alarm == 0 ? never : net_.now() + static_cast<nanoseconds>(alarm);
  is_asleep_ = true;
  // Over RDMA one that runs already is not always set again.
  const bool may_run_on = net_.how().rdma && !has_rung && alarm != 0;
  wakes_at_ = may_run_on ? std::min(latest, wakes_at_) : latest;
}

bool node::is_asleep() noexcept {
  if (is_asleep_ && (net_.now() >= wakes_at_ || host_.is_readable())) is_asleep_ = false;
  return is_asleep_;
}

void node::forge() {
  if (kernel_) kernel_->forge();
}

void node::forget(unsigned peer) {
  net_.note(number_, number_, [&] { return "forgets " + std::to_string(peer); });
  static_cast<void>(addresses_.remove(peer));
}

void node::know(unsigned peer) {
  net_.note(number_, number_, [&] { return "knows " + std::to_string(peer); });
  const auto index = addresses_.add(name_of(peer));
  if (!index || *index != peer) book_.fail("an address has another index than before");
}

void node::reset(bool is_told) {
  if (!device_ || std::exchange(has_lost_device_, true)) return;
  net_.note(number_, number_, [] { return "has its device reset"; });
  book_.lost_device(number_);
  device_->reset(is_told);
  net_.lose_memory(device_->bytes());
}

void node::collect() {
  while (!queue_.empty()) {
    const proto::cq_entry entry = queue_.front();
    queue_.pop();
    auto* r = static_cast<record*>(entry.context);
    const bool was_peek = r && r->asked.what == action::kind::peek && r->is_open();
    book_.completed(number_, life_, entry, exposed_);
    if (was_peek && r->asked.claim && r->error == 0 && book_.failure().empty()) take_claimed(*r);
  }
}

void node::close() {
  net_.note(number_, number_, [] { return "closes"; });
  host_.begin_call();
  endpoint_->shut_down();
  if (kernel_) kernel_->closed();
  collect();
  book_.forget(number_);
}

void node::kill() {
  net_.note(number_, number_, [] { return "is killed"; });
  host_.kill();
  if (kernel_) kernel_->kill();
  book_.forget(number_);
}

}  // namespace gaudi::sim
