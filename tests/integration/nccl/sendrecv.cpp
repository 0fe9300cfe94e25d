// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sendrecv.hpp"

namespace gaudi::test::nccl {
namespace {

constexpr std::size_t flush_size = 4;  // NCCL_OFI_FLUSH_SIZE

template <class Value>
std::span<std::byte> bytes_in(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

// nccl_net_ofi_sendrecv_device_t, _domain_t and _ep_t; the receiving communicator's flush buffer,
// alloc_and_reg_flush_buff(); cm_resources of cm/nccl_ofi_cm_resources.cpp, which shares the queue.
sendrecv::sendrecv(fi_info* info)
    : fabric_(open_fabric(*info)),
      domain_(open_domain(fabric_.get(), info)),
      queue_(open_queue(domain_.get(), FI_CQ_FORMAT_TAGGED)),
      flush_buffer_(page_size),
      flush_mr_(register_memory(domain_.get(), flush_buffer_, FI_SEND | FI_RECV | FI_READ, false)),
      messages_mr_(register_memory(domain_.get(), bytes_in(messages_), FI_SEND | FI_RECV, false)),
      endpoint_(info, domain_.get(), queue_.get()),
      manager_(info, domain_.get(), queue_.get()) {
  must(fi_recv(manager_.get(), &messages_[1], sizeof messages_[1], fi_mr_desc(messages_mr_.get()),
               FI_ADDR_UNSPEC, &connect_received_.context),
       "fi_recv");
  self_ = endpoint_.insert(endpoint_.name());  // listen()
}

void sendrecv::connect(const endpoint_name& handle_of_peer) {
  const fi_addr_t to = manager_.insert(handle_of_peer);
  messages_[0] = {endpoint_.name(), tag_of_listener};
  request sent;
  post(
      "fi_send",
      [&] {
        return fi_send(manager_.get(), messages_.data(), sizeof messages_[0],
                       fi_mr_desc(messages_mr_.get()), to, &sent.context);
      },
      [&] { progress(); });
  wait(sent);
  wait(connect_received_);
  peer_ = endpoint_.insert(messages_[1].name);
}

// sendrecv_mr_base_register(), where NCCL_PTR_CUDA adds FI_REMOTE_READ and NCCL_PTR_HOST FI_READ.
fid_ptr<fid_mr> sendrecv::register_buffer(std::span<std::byte> range, bool device) {
  return register_memory(domain_.get(), range,
                         FI_SEND | FI_RECV | (device ? FI_REMOTE_READ : FI_READ), device);
}

void sendrecv::send(std::span<std::byte> from, fid_mr* mr, request& r) {
  post(
      "fi_tsend",
      [&] {
        return fi_tsend(endpoint_.get(), from.data(), from.size(), fi_mr_desc(mr), peer_,
                        tag_of_listener, &r.context);
      },
      [&] { progress(); });
}

void sendrecv::receive(std::span<std::byte> to, fid_mr* mr, request& r) {
  post(
      "fi_trecv",
      [&] {
        return fi_trecv(endpoint_.get(), to.data(), to.size(), fi_mr_desc(mr), FI_ADDR_UNSPEC,
                        tag_of_listener, 0, &r.context);
      },
      [&] { progress(); });
}

void sendrecv::flush(std::span<std::byte> received, fid_mr* mr) {
  request r;
  post(
      "fi_read",
      [&] {
        return fi_read(endpoint_.get(), flush_buffer_.data(), flush_size,
                       fi_mr_desc(flush_mr_.get()), self_,
                       reinterpret_cast<std::uint64_t>(received.data()), fi_mr_key(mr), &r.context);
      },
      [&] { progress(); });
  wait(r);
}

// sendrecv_cq_process().
void sendrecv::progress() {
  std::array<fi_cq_tagged_entry, 4> entries;
  for (;;) {
    const ssize_t count = fi_cq_read(queue_.get(), entries.data(), entries.size());
    if (count == -FI_EAGAIN) return;
    must(count, "fi_cq_read");
    for (ssize_t i = 0; i < count; ++i) {
      const auto& entry = entries[static_cast<std::size_t>(i)];
      auto& r = *static_cast<request*>(entry.op_context);
      r.done = true;
      r.length = entry.len;
      r.flags = entry.flags;
    }
  }
}

void sendrecv::wait(request& r) {
  while (!r.done) progress();
}

}  // namespace gaudi::test::nccl
