// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "address.hpp"
#include "failure.hpp"

namespace gaudi::rdma_check {
namespace {

using std::chrono::milliseconds;

constexpr int resolve_ms = 3000;

// One of the two may have receives and sends of a whole round, and a few messages.
constexpr std::uint32_t depth = max_slots + 8;

/// What the client says in its request, in network byte order.
struct request_data {
  std::uint32_t magic;
  std::uint16_t what;
  std::uint16_t pad;
};
constexpr std::uint32_t magic = 0x47525443;

rdma_conn_param parameters(const request_data* data) {
  rdma_conn_param param{};
  param.private_data = data;
  param.private_data_len = data != nullptr ? sizeof *data : 0;
  param.responder_resources = RDMA_MAX_RESP_RES;
  param.initiator_depth = RDMA_MAX_INIT_DEPTH;
  param.retry_count = 7;
  param.rnr_retry_count = 7;
  return param;
}

bool asks_for(const rdma_conn_param& param, purpose wanted) {
  request_data data{};
  if (param.private_data == nullptr || param.private_data_len < sizeof data) return false;
  std::memcpy(&data, param.private_data, sizeof data);
  return ntohl(data.magic) == magic && ntohs(data.what) == static_cast<std::uint16_t>(wanted);
}

ibv_wr_opcode opcode_of(operation op) {
  switch (op) {
    case operation::send:
      return IBV_WR_SEND;
    case operation::write:
      return IBV_WR_RDMA_WRITE;
    case operation::write_imm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case operation::read:
      break;
  }
  return IBV_WR_RDMA_READ;
}

}  // namespace

connection::connection(event_channel channel, id_ptr id)
    : channel_(std::move(channel)), id_(std::move(id)) {}

connection connection::towards(const std::string& server, std::uint16_t port,
                               const std::string& bind) {
  address to = address::resolve(server, port);
  std::optional<address> from;
  if (!bind.empty()) from = address::resolve(bind, 0);
  event_channel channel;
  id_ptr id = channel.make_id();
  connection made(std::move(channel), std::move(id));
  if (rdma_resolve_addr(made.id_.get(), from ? from->get() : nullptr, to.get(), resolve_ms) != 0)
    fail_with_errno(fmt::format("no RDMA device leads to {}", server));
  made.expect(RDMA_CM_EVENT_ADDR_RESOLVED, milliseconds{2 * resolve_ms});
  // An address of this machine resolves without one as well, and is noticed only here.
  if (rdma_resolve_route(made.id_.get(), resolve_ms) != 0)
    fail_with_errno(fmt::format("no RDMA device leads to {}", server));
  made.expect(RDMA_CM_EVENT_ROUTE_RESOLVED, milliseconds{2 * resolve_ms});
  made.make_queues();
  return made;
}

connection connection::requested(id_ptr id) {
  event_channel channel;
  channel.adopt(id.get());
  connection made(std::move(channel), std::move(id));
  made.make_queues();
  return made;
}

void connection::make_queues() {
  pd_.reset(ibv_alloc_pd(id_->verbs));
  if (!pd_) fail_with_errno("ibv_alloc_pd");
  cq_.reset(ibv_create_cq(id_->verbs, 2 * depth, nullptr, nullptr, 0));
  if (!cq_) fail_with_errno("ibv_create_cq");
  ibv_qp_init_attr attr{};
  attr.send_cq = cq_.get();
  attr.recv_cq = cq_.get();
  attr.cap = {.max_send_wr = depth,
              .max_recv_wr = depth,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  if (rdma_create_qp(id_.get(), pd_.get(), &attr) != 0) fail_with_errno("rdma_create_qp");
  qp_.reset(id_.get());
}

event_ptr connection::expect(rdma_cm_event_type wanted, milliseconds limit) const {
  event_ptr event = channel_.next(limit);
  if (!event) throw failure(exit_code::no_connection, "the peer does not answer");
  const bool refused =
      wanted == RDMA_CM_EVENT_ESTABLISHED && event->event == RDMA_CM_EVENT_REJECTED;
  if (event->event != wanted && !refused)
    throw failure(exit_code::no_connection, fmt::format("no connection: {}", describe(*event)));
  return event;
}

bool connection::connect(purpose what, milliseconds limit) {
  const request_data data{htonl(magic), htons(static_cast<std::uint16_t>(what)), 0};
  rdma_conn_param param = parameters(&data);
  if (rdma_connect(id_.get(), &param) != 0) fail_with_errno("rdma_connect");
  return expect(RDMA_CM_EVENT_ESTABLISHED, limit)->event == RDMA_CM_EVENT_ESTABLISHED;
}

void connection::accept(milliseconds limit) {
  rdma_conn_param param = parameters(nullptr);
  if (rdma_accept(id_.get(), &param) != 0) fail_with_errno("rdma_accept");
  if (expect(RDMA_CM_EVENT_ESTABLISHED, limit)->event != RDMA_CM_EVENT_ESTABLISHED)
    throw failure(exit_code::no_connection, "the client gave up");
}

void connection::disconnect() {
  rdma_disconnect(id_.get());
}

bool connection::closed() {
  if (closed_) return true;
  while (const event_ptr event = channel_.next(milliseconds{0}))
    if (event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
      closed_ = true;
  return closed_;
}

void connection::post(operation op, const local_range& local, const remote_place& remote,
                      std::uint32_t immediate) {
  ibv_sge part{local.address, local.size, local.lkey};
  ibv_send_wr request{};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = opcode_of(op);
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(immediate);
  request.wr.rdma.remote_addr = remote.address;
  request.wr.rdma.rkey = remote.rkey;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0)
    throw failure(exit_code::operation_failed,
                  fmt::format("posting a {}: {}", name_of(op), std::strerror(error)));
}

void connection::post_receive(const local_range& local, std::uint64_t tag) {
  ibv_sge part{local.address, local.size, local.lkey};
  ibv_recv_wr request{};
  request.wr_id = tag;
  request.sg_list = &part;
  request.num_sge = local.size == 0 ? 0 : 1;
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &request, &bad); error != 0)
    throw failure(exit_code::operation_failed,
                  fmt::format("posting a receive: {}", std::strerror(error)));
}

std::size_t connection::poll(std::span<ibv_wc> into) {
  const int count = ibv_poll_cq(cq_.get(), static_cast<int>(into.size()), into.data());
  if (count < 0) throw failure(exit_code::operation_failed, "polling the completion queue failed");
  return static_cast<std::size_t>(count);
}

listener::listener(const std::string& bind, std::uint16_t port) {
  const auto bound = [&](address where) {
    id_ = channel_.make_id();
    return rdma_bind_addr(id_.get(), where.get()) == 0;
  };
  // A kernel without IPv6 has the second only.
  const bool done = bind.empty()
                        ? bound(address::any(AF_INET6, port)) || bound(address::any(AF_INET, port))
                        : bound(address::resolve(bind, port));
  if (!done)
    fail_with_errno(fmt::format("cannot listen on {}port {}",
                                bind.empty() ? "" : fmt::format("{} ", bind), port));
  if (rdma_listen(id_.get(), 4) != 0)
    fail_with_errno(fmt::format("cannot listen on port {}", port));
}

connection listener::take(purpose wanted, std::optional<milliseconds> limit) const {
  for (;;) {
    event_ptr event = channel_.next(limit);
    if (!event) throw failure(exit_code::no_connection, "the client did not connect fully");
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    id_ptr id(event->id);
    const bool fits = asks_for(event->param.conn, wanted);
    event.reset();
    if (fits) return connection::requested(std::move(id));
    rdma_reject(id.get(), nullptr, 0);
  }
}

}  // namespace gaudi::rdma_check
