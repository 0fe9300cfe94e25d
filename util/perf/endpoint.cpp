// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace gaudi::perf {
namespace {

info_ptr get_info(const endpoint_request& request) {
  const info_ptr hints(fi_allocinfo());
  if (!hints) throw failure("fi_allocinfo: out of memory");
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->fabric_attr->prov_name = strdup(request.provider.c_str());  // fi_freeinfo frees it
  if (request.device) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  return common::find_endpoint(*hints, request.source);
}

}  // namespace

endpoint::endpoint(const endpoint_request& request)
    : open_(common::open_endpoint(get_info(request), FI_CQ_FORMAT_MSG)) {}

std::vector<std::uint8_t> endpoint::name() const {
  std::vector<std::uint8_t> name(256);
  std::size_t length = name.size();
  require(fi_getname(&open_.ep->fid, name.data(), &length), "fi_getname");
  name.resize(length);
  return name;
}

void endpoint::set_peer(const std::vector<std::uint8_t>& name) {
  const int added = fi_av_insert(open_.av.get(), name.data(), 1, &peer_, 0, nullptr);
  require(added, "fi_av_insert");
  if (added != 1) throw failure("fi_av_insert: the peer's address is not usable here");
}

const fi_gaudi_ops* endpoint::find_device_ops() {
  if (ops_ == nullptr) ops_ = common::find_device_ops(open_.domain.get());
  return ops_;
}

const fi_gaudi_ops& endpoint::device_ops() {
  const fi_gaudi_ops* ops = find_device_ops();
  if (ops == nullptr) throw failure("this provider has no operations on Gaudi memory");
  return *ops;
}

template <class Post>
bool endpoint::start(ticket& done, std::string_view call, Post post) {
  done.busy_ = true;
  const ssize_t ret = post();
  if (ret == -FI_EAGAIN) {
    done.busy_ = false;
    ++refused_;
    return false;
  }
  require(ret, call);
  return true;
}

bool endpoint::send(local_memory from, std::size_t size, ticket& done) {
  return start(done, "fi_send", [&] {
    return fi_send(open_.ep.get(), from.address, size, from.desc, peer_, &done);
  });
}

bool endpoint::receive(local_memory to, std::size_t size, ticket& done) {
  return start(done, "fi_recv", [&] {
    return fi_recv(open_.ep.get(), to.address, size, to.desc, FI_ADDR_UNSPEC, &done);
  });
}

bool endpoint::tagged_send(local_memory from, std::size_t size, std::uint64_t tag, ticket& done) {
  return start(done, "fi_tsend", [&] {
    return fi_tsend(open_.ep.get(), from.address, size, from.desc, peer_, tag, &done);
  });
}

bool endpoint::tagged_receive(local_memory to, std::size_t size, std::uint64_t tag, ticket& done) {
  return start(done, "fi_trecv", [&] {
    return fi_trecv(open_.ep.get(), to.address, size, to.desc, FI_ADDR_UNSPEC, tag, 0, &done);
  });
}

bool endpoint::write(local_memory from, std::size_t size, remote_memory to, ticket& done,
                     bool more) {
  return start_rma(from, size, to, done, "fi_writemsg", [&](const fi_msg_rma& message) {
    return fi_writemsg(open_.ep.get(), &message,
                       FI_DELIVERY_COMPLETE | FI_COMPLETION | (more ? FI_MORE : 0));
  });
}

bool endpoint::read(local_memory to, std::size_t size, remote_memory from, ticket& done,
                    bool more) {
  return start_rma(to, size, from, done, "fi_readmsg", [&](const fi_msg_rma& message) {
    return fi_readmsg(open_.ep.get(), &message, FI_COMPLETION | (more ? FI_MORE : 0));
  });
}

template <class Post>
bool endpoint::start_rma(local_memory here, std::size_t size, remote_memory there, ticket& done,
                         std::string_view call, Post post) {
  const iovec local{here.address, size};
  const fi_rma_iov remote{there.address, size, there.key};
  fi_msg_rma message{};
  message.msg_iov = &local;
  message.desc = &here.desc;
  message.iov_count = 1;
  message.addr = peer_;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &done;
  return start(done, call, [&] { return post(message); });
}

bool endpoint::progress() {
  std::array<fi_cq_msg_entry, 16> entries;
  const ssize_t count = fi_cq_read(open_.cq.get(), entries.data(), entries.size());
  if (count == -FI_EAGAIN) return false;
  if (count == -FI_EAVAIL) report_error();
  require(count, "fi_cq_read");
  for (ssize_t i = 0; i < count; ++i) {
    auto& done = *static_cast<ticket*>(entries[static_cast<std::size_t>(i)].op_context);
    done.length_ = entries[static_cast<std::size_t>(i)].len;
    done.busy_ = false;
  }
  if (stalls_ && count > 0) {
    stalls_->longest = std::max(stalls_->longest, stalls_->since_last.microseconds());
    stalls_->since_last = {};
  }
  return count > 0;
}

double endpoint::stop_timing_stalls() {
  const double longest = stalls_ ? stalls_->longest : 0;
  stalls_.reset();
  return longest;
}

void endpoint::report_error() {
  // Newer libraries write a longer entry than the one this program was compiled with.
  union {
    fi_cq_err_entry entry;
    std::array<std::byte, 256> room;
  } error{};
  require(fi_cq_readerr(open_.cq.get(), &error.entry, 0), "fi_cq_readerr");
  std::array<char, 256> text{};
  const char* reason = fi_cq_strerror(open_.cq.get(), error.entry.prov_errno, error.entry.err_data,
                                      text.data(), text.size());
  throw failure(fmt::format("an operation failed: {} ({})", fi_strerror(error.entry.err),
                            reason != nullptr ? reason : "no more is known"));
}

}  // namespace gaudi::perf
