// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using common::require;

common::info_ptr find(const settings& s, bool device, const std::string& source) {
  const common::info_ptr hints(fi_allocinfo());
  if (!hints) throw common::failure("fi_allocinfo: out of memory");
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
  if (std::any_of(s.operations.begin(), s.operations.end(), is_atomic)) hints->caps |= FI_ATOMIC;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup(s.provider.c_str());  // fi_freeinfo frees it
  if (s.multi_receive) hints->caps |= FI_MULTI_RECV;
  if (device) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  return common::find_endpoint(*hints, source);
}

// In the order of counted_kind.
constexpr std::array<std::uint64_t, counted_kinds.size()> counted_flags{FI_SEND, FI_RECV, FI_READ,
                                                                        FI_WRITE};

std::span<const std::uint64_t> counted(const settings& s) {
  return s.counters ? std::span<const std::uint64_t>(counted_flags)
                    : std::span<const std::uint64_t>();
}

}  // namespace

endpoint::endpoint(const settings& s, bool device, const std::string& source)
    : open_(common::open_endpoint(find(s, device, source), FI_CQ_FORMAT_TAGGED, counted(s))) {}

std::vector<std::uint8_t> endpoint::name() const {
  std::vector<std::uint8_t> name(256);
  std::size_t length = name.size();
  require(fi_getname(&open_.ep->fid, name.data(), &length), "fi_getname");
  name.resize(length);
  return name;
}

void endpoint::set_peer(unsigned number, const std::vector<std::uint8_t>& name) {
  if (peers_.size() <= number) peers_.resize(number + 1, FI_ADDR_NOTAVAIL);
  fi_addr_t& peer = peers_[number];
  if (peer != FI_ADDR_NOTAVAIL) require(fi_av_remove(open_.av.get(), &peer, 1, 0), "fi_av_remove");
  const int added = fi_av_insert(open_.av.get(), name.data(), 1, &peer, 0, nullptr);
  require(added, "fi_av_insert");
  if (added != 1)
    throw common::failure(
        fmt::format("fi_av_insert: the address of worker {} is not usable here", number));
}

long endpoint::post(const request& r, unsigned peer, void* context) {
  const fi_addr_t to = peers_[peer];
  if (is_message(r.op)) return post_message(r, to, context);
  return is_atomic(r.op) ? post_atomic(r, to, context) : post_rma(r, to, context);
}

long endpoint::post_message(const request& r, fi_addr_t to, void* context) {
  const auto& [address, desc] = r.near;
  switch (r.op) {
    case operation::send:
      return fi_send(open_.ep.get(), address, r.size, desc, to, context);
    case operation::inject:
      return fi_inject(open_.ep.get(), address, r.size, to);
    case operation::senddata:
      return fi_senddata(open_.ep.get(), address, r.size, desc, r.id, to, context);
    case operation::tsend:
      return fi_tsend(open_.ep.get(), address, r.size, desc, to, r.id, context);
    case operation::tinject:
      return fi_tinject(open_.ep.get(), address, r.size, to, r.id);
    default:
      return fi_tsenddata(open_.ep.get(), address, r.size, desc, r.id, to, r.id, context);
  }
}

namespace {

// One behind the other, the last one the longest.
std::vector<fi_rma_iov> ranges_of(const request& r) {
  std::vector<fi_rma_iov> ranges;
  std::size_t offset = 0;
  for (std::size_t left = r.ranges; left != 0; --left) {
    const std::size_t length = left == 1 ? r.size - offset : r.size / (r.ranges + 1);
    ranges.push_back({r.far.address + offset, length, r.far.key});
    offset += length;
  }
  return ranges;
}

}  // namespace

// Writes complete when the bytes are visible at the target, which compares them soon afterwards.
long endpoint::post_rma(const request& r, fi_addr_t to, void* context) {
  const iovec local{r.near.address, r.size};
  const std::vector<fi_rma_iov> remote = ranges_of(r);
  void* desc = r.near.desc;
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = to;
  message.rma_iov = remote.data();
  message.rma_iov_count = remote.size();
  message.context = context;
  message.data = r.id;
  if (r.op == operation::read) return fi_readmsg(open_.ep.get(), &message, FI_COMPLETION);
  const std::uint64_t data = r.op == operation::writedata ? FI_REMOTE_CQ_DATA : 0;
  return fi_writemsg(open_.ep.get(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION | data);
}

long endpoint::post_atomic(const request& r, fi_addr_t to, void* context) {
  const std::size_t count = r.size / sizeof(std::uint64_t);
  const fi_ioc operand{r.near.address, count};
  const fi_rma_ioc target{r.far.address, count, r.far.key};
  fi_ioc result{r.result.address, count};
  const fi_ioc compared{r.compared.address, count};
  void* desc = r.near.desc;
  void* result_desc = r.result.desc;
  void* compared_desc = r.compared.desc;
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = to;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.op = r.op == operation::compare ? FI_CSWAP : FI_SUM;
  message.context = context;
  if (r.op == operation::atomic)
    return fi_atomicmsg(open_.ep.get(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
  if (r.op == operation::fetch)
    return fi_fetch_atomicmsg(open_.ep.get(), &message, &result, &result_desc, 1, FI_COMPLETION);
  return fi_compare_atomicmsg(open_.ep.get(), &message, &compared, &compared_desc, 1, &result,
                              &result_desc, 1, FI_COMPLETION);
}

long endpoint::receive(const request& r, unsigned peer, std::uint64_t flags, void* context) {
  if (flags != 0) return receive_specially(r, peers_[peer], flags, context);
  const auto& [address, desc] = r.near;
  if (is_tagged(r.op))
    return fi_trecv(open_.ep.get(), address, r.size, desc, peers_[peer], r.id, 0, context);
  return fi_recv(open_.ep.get(), address, r.size, desc, peers_[peer], context);
}

long endpoint::receive_specially(const request& r, fi_addr_t from, std::uint64_t flags,
                                 void* context) {
  const iovec range{r.near.address, r.size};
  void* desc = r.near.desc;
  if (is_tagged(r.op)) {
    fi_msg_tagged message{};
    message.msg_iov = &range;
    message.desc = &desc;
    message.iov_count = 1;
    message.addr = from;
    message.tag = r.id;
    message.context = context;
    return fi_trecvmsg(open_.ep.get(), &message, flags | FI_COMPLETION);
  }
  fi_msg message{};
  message.msg_iov = &range;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = from;
  message.context = context;
  return fi_recvmsg(open_.ep.get(), &message, flags | FI_COMPLETION);
}

void endpoint::set_min_multi_receive(std::size_t size) {
  require(fi_setopt(&open_.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, sizeof size),
          "fi_setopt");
}

counter_values endpoint::read_counters() const {
  counter_values values{};
  for (std::size_t i = 0; i < open_.counters.size(); ++i) {
    fid_cntr* const counter = open_.counters[i].get();
    values.at(i) = {.succeeded = fi_cntr_read(counter), .failed = fi_cntr_readerr(counter)};
  }
  return values;
}

std::optional<completion> endpoint::poll() {
  fi_cq_tagged_entry entry{};
  const ssize_t count = fi_cq_read(open_.cq.get(), &entry, 1);
  if (count == -FI_EAGAIN) return std::nullopt;
  if (count == -FI_EAVAIL) return read_error();
  require(count, "fi_cq_read");
  return completion{.context = entry.op_context,
                    .buffer = entry.buf,
                    .flags = entry.flags,
                    .length = entry.len,
                    .data = entry.data,
                    .tag = entry.tag};
}

completion endpoint::read_error() {
  // Newer libraries write a longer entry than the one this program was compiled with.
  union {
    fi_cq_err_entry entry;
    std::array<std::byte, 256> room;
  } error{};
  require(fi_cq_readerr(open_.cq.get(), &error.entry, 0), "fi_cq_readerr");
  return {.context = error.entry.op_context, .flags = error.entry.flags, .error = error.entry.err};
}

}  // namespace gaudi::stress
