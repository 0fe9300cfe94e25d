// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rdma.hpp"

#include <atomic>
#include <cstring>

namespace gaudi::test::nccl {
namespace {

// set_mr_req_attr().
constexpr std::uint64_t access =
    FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE | FI_READ | FI_REMOTE_READ;

template <class Value>
std::span<std::byte> bytes_of(std::vector<Value>& values) {
  return std::as_writable_bytes(std::span(values));
}

// GET_RDMA_WRITE_IMM_DATA(): 4 bits of how many segments, and the message's number.
std::uint64_t immediate(unsigned number, std::size_t segments) {
  return (segments << 28U) | number;
}
unsigned number_in(std::uint64_t data) {
  return static_cast<unsigned>(data & 0xffffU);
}
unsigned segments_in(std::uint64_t data) {
  return static_cast<unsigned>(data >> 28U) & 0xfU;
}

}  // namespace

rdma::rdma(fi_info* info)
    : fabric_(open_fabric(*info)),
      mailbox_(slots),
      out_(slots),
      rx_memory_(rx_buffers * rx_size),
      headers_(slots),
      flush_memory_(rails * line) {
  for (rail& r : rails_) {
    r.domain = open_domain(fabric_.get(), info);
    r.queue = open_queue(r.domain.get(), FI_CQ_FORMAT_DATA);
  }
  flush_device_ = std::make_unique<device_memory>(rails_[0].domain.get(), page_size);
  for (rail& r : rails_) {
    register_own(r);
    r.data = std::make_unique<endpoint>(info, r.domain.get(), r.queue.get());
    r.self = r.data->insert(r.data->name());
  }
  control_ = std::make_unique<endpoint>(info, rails_[0].domain.get(), rails_[0].queue.get());
  // post_rx_buffs_on_rail(): each but the last says that another follows.
  for (unsigned i = 0; i < rx_buffers; ++i) {
    rx_[i].index = i;
    rx_[i].rail = i % rails;
    post_rx(rx_[i], i + rails < rx_buffers);
  }
  close_rx_.close = true;
  must(fi_recv(control_->get(), &close_byte_, 1, nullptr, FI_ADDR_UNSPEC, &close_rx_.context),
       "fi_recv");
}

// Endpoints, then registrations, then queues and domains.
rdma::~rdma() {
  control_.reset();
  for (rail& r : rails_) {
    r.data.reset();
    r.regions.clear();
  }
  flush_device_.reset();
}

void rdma::register_own(rail& r) {
  fid_domain* const domain = r.domain.get();
  for (const auto range : {bytes_of(mailbox_), bytes_of(out_), bytes_of(rx_memory_),
                           bytes_of(headers_), bytes_of(flush_memory_)})
    r.regions.push_back(register_memory(domain, range, access, false));
  r.regions.push_back(register_memory(domain, flush_device_->range(), access, true));
}

rdma::address rdma::own_address() const {
  address a{};
  for (std::size_t i = 0; i < rails; ++i) {
    a.data[i] = rails_[i].data->name();
    a.mailbox_keys[i] = fi_mr_key(rails_[i].regions[mailbox_in].get());
  }
  a.control = control_->name();
  a.mailbox = reinterpret_cast<std::uint64_t>(mailbox_.data());
  return a;
}

void rdma::connect(const address& peer) {
  for (std::size_t i = 0; i < rails; ++i) rails_[i].peer = rails_[i].data->insert(peer.data[i]);
  control_peer_ = control_->insert(peer.control);
  peer_mailbox_ = peer.mailbox;
  peer_keys_ = peer.mailbox_keys;
}

rdma::handle rdma::register_buffer(std::span<std::byte> range, bool device) {
  handle made;
  for (std::size_t i = 0; i < rails; ++i)
    made[i] = register_memory(rails_[i].domain.get(), range, access, device);
  return made;
}

// post_rx_buffer().
void rdma::post_rx(rx_request& r, bool more) {
  rail& on = rails_[r.rail];
  iovec where{rx_memory_.data() + r.index * rx_size, rx_size};
  void* desc = fi_mr_desc(on.regions[eager_rx].get());
  fi_msg message{};
  message.msg_iov = &where;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = &r.context;
  r.done = false;
  post(
      "fi_recvmsg", [&] { return fi_recvmsg(on.data->get(), &message, more ? FI_MORE : 0); },
      [&] { progress(); });
}

// rdma_write_ctrl_req::post().
void rdma::receive(std::span<std::byte> to, const handle& mr) {
  const unsigned number = next_receive_++;
  incoming_[number] = {.to = to, .mr = &mr};
  control_message& message = out_[number % slots];
  message = {.buffer = reinterpret_cast<std::uint64_t>(to.data()),
             .length = to.size(),
             .keys = {},
             .number_plus_one = number + 1};
  for (std::size_t i = 0; i < rails; ++i) message.keys[i] = fi_mr_key(mr[i].get());
  const std::size_t by = number % rails;
  rail& r = rails_[by];
  request& written = new_request();
  post(
      "fi_write",
      [&] {
        return fi_write(r.data->get(), &message, sizeof message,
                        fi_mr_desc(r.regions[mailbox_out].get()), r.peer,
                        peer_mailbox_ + number % slots * sizeof message, peer_keys_[by],
                        &written.context);
      },
      [&] { progress(); });
}

// rdma_send_req::post() and post_eager().
void rdma::send(std::span<std::byte> from, const handle& mr, bool eager) {
  const unsigned number = next_send_++;
  if (eager) {
    const std::size_t by = next_scheduled_++ % rails;
    rail& r = rails_[by];
    headers_[number % slots] = {.offset = 0, .number = number};
    std::array<iovec, 2> parts{iovec{&headers_[number % slots], sizeof(eager_header)},
                               iovec{from.data(), from.size()}};
    std::array<void*, 2> descs{fi_mr_desc(r.regions[headers].get()), fi_mr_desc(mr[by].get())};
    fi_msg message{};
    message.msg_iov = parts.data();
    message.desc = descs.data();
    message.iov_count = parts.size();
    message.addr = r.peer;
    message.context = &new_request().context;
    message.data = immediate(number, 1);
    post(
        "fi_sendmsg", [&] { return fi_sendmsg(r.data->get(), &message, FI_REMOTE_CQ_DATA); },
        [&] { progress(); });
    return;
  }
  const control_message& slot = mailbox_[number % slots];
  const std::atomic_ref<const std::uint32_t> ready(slot.number_plus_one);
  while (ready.load(std::memory_order_acquire) != number + 1) progress();
  // What is too short for stripes takes the rails in turn.
  const std::size_t stripes = from.size() < min_stripe ? 1 : rails;
  for (std::size_t i = 0; i < stripes; ++i) {
    const std::size_t at = i * (from.size() / stripes);
    const std::size_t length = i + 1 == stripes ? from.size() - at : from.size() / stripes;
    const std::size_t by = next_scheduled_++ % rails;
    rail& r = rails_[by];
    request& written = new_request();
    post(
        "fi_writedata",
        [&] {
          return fi_writedata(r.data->get(), from.data() + at, length, fi_mr_desc(mr[by].get()),
                              immediate(number, stripes), r.peer, slot.buffer + at, slot.keys[by],
                              &written.context);
        },
        [&] { progress(); });
  }
}

void rdma::flush() {
  for (std::size_t i = 0; i < rails; ++i) {
    rail& r = rails_[i];
    request& read = new_request();
    post(
        "fi_read",
        [&] {
          return fi_read(r.data->get(), flush_memory_.data() + i * line, line,
                         fi_mr_desc(r.regions[flush_line].get()), r.self,
                         reinterpret_cast<std::uint64_t>(flush_device_->range().data()),
                         fi_mr_key(r.regions[flush_target].get()), &read.context);
        },
        [&] { progress(); });
  }
  wait_sent();
}

void rdma::close() {
  std::byte nothing{};
  request& sent = new_request();
  post(
      "fi_send",
      [&] { return fi_send(control_->get(), &nothing, 1, nullptr, control_peer_, &sent.context); },
      [&] { progress(); });
  wait_sent();
  while (!peer_closed_) progress();
}

std::size_t rdma::wait_received(unsigned number) {
  incoming& wanted = incoming_.at(number);
  while (!wanted.complete) progress();
  const std::size_t length = wanted.length;
  incoming_.erase(number);
  return length;
}

void rdma::wait_sent() {
  for (request& r : requests_) wait(r);
  requests_.clear();
}

request& rdma::new_request() {
  return requests_.emplace_back();
}

void rdma::wait(request& r) {
  while (!r.done) progress();
}

void rdma::progress() {
  for (rail& r : rails_) progress_rail(r);
  start_eager_copies();
}

// rdma_process_completions() and nccl_net_ofi_rdma_context::handle_cq_entry().
void rdma::progress_rail(rail& r) {
  std::array<fi_cq_data_entry, 4> entries{};
  const ssize_t count = fi_cq_read(r.queue.get(), entries.data(), entries.size());
  if (count == -FI_EAGAIN) return;
  must(count, "fi_cq_read");
  for (ssize_t i = 0; i < count; ++i) {
    const auto& entry = entries[static_cast<std::size_t>(i)];
    if (entry.flags & FI_REMOTE_WRITE) {
      handle_write(entry.data, entry.len);
      continue;
    }
    if (entry.op_context == nullptr) throw std::runtime_error("a completion without a context");
    if (entry.flags & FI_RECV) {
      auto& rx = *static_cast<rx_request*>(static_cast<request*>(entry.op_context));
      if (!rx.close && !(entry.flags & FI_REMOTE_CQ_DATA))
        throw std::runtime_error("an eager message came without its immediate data");
      rx.data = entry.data;
      rx.close ? handle_close() : handle_rx(rx, entry.len);
    } else if (entry.flags & (FI_SEND | FI_WRITE | FI_READ)) {
      static_cast<request*>(entry.op_context)->done = true;
    } else {
      throw std::runtime_error("a completion of no known kind");
    }
  }
}

void rdma::handle_close() {
  peer_closed_ = true;
}

// handle_write_comp().
void rdma::handle_write(std::uint64_t data, std::size_t length) {
  incoming& m = incoming_.at(number_in(data));
  m.length += length;
  m.complete = ++m.segments == segments_in(data);
}

void rdma::handle_rx(rx_request& r, std::size_t length) {
  arrived_early_.emplace_back(&r, length);
}

// rdma_eager_copy_req::post(): the NIC copies from the buffer to where the receive wants it. What
// came before its receive was posted waits.
void rdma::start_eager_copies() {
  for (std::size_t left = arrived_early_.size(); left > 0; --left) {
    const auto [rx, length] = arrived_early_.front();
    arrived_early_.pop_front();
    const auto found = incoming_.find(number_in(rx->data));
    if (found == incoming_.end()) {
      arrived_early_.emplace_back(rx, length);
      continue;
    }
    incoming& m = found->second;
    rail& r = rails_[rx->rail];
    std::byte* const from = rx_memory_.data() + rx->index * rx_size + sizeof(eager_header);
    const std::size_t payload = length - sizeof(eager_header);
    if (payload != 0) {
      request copied;
      void* const desc = fi_mr_desc((*m.mr)[rx->rail].get());
      // Not progress(), which would come here again.
      const auto meanwhile = [&] {
        for (rail& each : rails_) progress_rail(each);
      };
      post(
          "fi_read",
          [&] {
            return fi_read(r.data->get(), m.to.data(), payload, desc, r.self,
                           reinterpret_cast<std::uint64_t>(from),
                           fi_mr_key(r.regions[eager_rx].get()), &copied.context);
          },
          meanwhile);
      while (!copied.done) meanwhile();
    }
    m.length = payload;
    m.complete = true;
    post_rx(*rx, false);
  }
}

}  // namespace gaudi::test::nccl
