// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rail.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace gaudi::test::nixl {
namespace {

// NIXL asks for 1.18, which libfabric 1.17 does not have.
std::uint32_t version() {
  return FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) ? FI_VERSION(1, 17) : FI_VERSION(1, 18);
}

// NIXL_MAKE_IMM_DATA(): type, the agent's index, and numbers of the transfer.
std::uint64_t immediate(std::uint64_t type) {
  return type | 1U << 4U | 1U << 12U;
}
std::uint64_t type_of(std::uint64_t data) {
  return data & 0xfU;
}

}  // namespace

std::string discover() {
  const info_ptr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_RMA | FI_LOCAL_COMM | FI_REMOTE_COMM;
  hints->mode = FI_CONTEXT;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = ~3;
  fi_info* found = nullptr;
  if (fi_getinfo(version(), nullptr, nullptr, 0, hints.get(), &found) != 0) return {};
  const info_ptr list(found);
  for (const fi_info* info = found; info; info = info->next)
    if (info->fabric_attr->prov_name == provider()) return info->domain_attr->name;
  return {};
}

rail::rail(const std::string& device) {
  const info_ptr hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_RMA | FI_HMEM | FI_LOCAL_COMM | FI_REMOTE_COMM;
  hints->mode = FI_CONTEXT;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_HMEM | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->mr_key_size = 2;
  hints->domain_attr->name = ::strdup(device.c_str());
  hints->domain_attr->threading = FI_THREAD_COMPLETION;
  has_hmem_ = fi_getinfo(version(), nullptr, nullptr, 0, hints.get(), &info_) == 0;
  if (!has_hmem_) {
    hints->caps &= ~FI_HMEM;
    must(fi_getinfo(version(), nullptr, nullptr, 0, hints.get(), &info_), "fi_getinfo");
  }
  open(info_);
  // ControlRequestPool::createBufferChunk() and initialize().
  control_memory_.resize(control_requests * control_size);
  must(fi_mr_reg(domain_, control_memory_.data(), control_memory_.size(), FI_SEND | FI_RECV, 0, 0,
                 0, &control_mr_, nullptr),
       "fi_mr_reg");
  control_.resize(control_requests);
  for (std::size_t i = 0; i < control_requests; ++i) {
    control_[i].buffer = control_memory_.data() + i * control_size;
    free_control_.push_back(&control_[i]);
  }
  for (std::size_t i = 0; i < receives; ++i) post_receive(control_request());
}

void rail::open(fi_info* info) {
  must(fi_fabric(info->fabric_attr, &fabric_, nullptr), "fi_fabric");
  must(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_DATA;
  queue.wait_obj = FI_WAIT_NONE;
  queue.size = 12288;
  must(fi_cq_open(domain_, &queue, &cq_, nullptr), "fi_cq_open");
  fi_av_attr vector{};
  must(fi_av_open(domain_, &vector, &av_, nullptr), "fi_av_open");
  must(fi_endpoint(domain_, info, &ep_, nullptr), "fi_endpoint");
  must(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV), "binding the queue");
  must(fi_ep_bind(ep_, &av_->fid, 0), "binding the vector");
  must(fi_enable(ep_), "fi_enable");
  std::size_t length = name_.size();
  must(fi_getname(&ep_->fid, name_.data(), &length), "fi_getname");
}

// cleanup(): receives are still posted; registrations of the user's are closed before.
rail::~rail() {
  if (ep_) fi_close(&ep_->fid);
  if (cq_) fi_close(&cq_->fid);
  if (av_) fi_close(&av_->fid);
  if (control_mr_) fi_close(&control_mr_->fid);
  EXPECT_EQ(domain_ ? fi_close(&domain_->fid) : 0, 0);
  EXPECT_EQ(fabric_ ? fi_close(&fabric_->fid) : 0, 0);
  fi_freeinfo(info_);
}

void rail::connect(const endpoint_name& peer) {
  fi_addr_t self = FI_ADDR_UNSPEC;  // an agent's first connection is that to itself
  if (fi_av_insert(av_, name_.data(), 1, &self, 0, nullptr) != 1 ||
      fi_av_insert(av_, peer.data(), 1, &peer_, 0, nullptr) != 1)
    throw std::runtime_error("fi_av_insert");
  send(handshake, "my name");
}

fid_ptr<fid_mr> rail::register_memory(std::span<std::byte> range, bool device) {
  const iovec where{range.data(), range.size()};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } asked{};
  asked.attr.access = FI_REMOTE_WRITE | FI_REMOTE_READ;
  asked.attr.iface = device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  asked.attr.mr_iov = &where;
  asked.attr.iov_count = 1;
  fid_mr* mr = nullptr;
  must(fi_mr_regattr(domain_, &asked.attr, 0, &mr), "fi_mr_regattr");
  return fid_ptr<fid_mr>(mr);
}

// Every posting function of the rail's repeats its call in this way, without a thread for progress.
template <class Call>
void rail::post(const char* what, Call call) {
  ssize_t ret;
  while ((ret = call()) == -FI_EAGAIN) progress();
  must(ret, what);
}

void rail::post_receive(request& r) {
  r.is_receive = true;
  iovec where{r.buffer, control_size};
  void* desc = fi_mr_desc(control_mr_);
  fi_msg message{};
  message.msg_iov = &where;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = &r.context;
  must(fi_recvmsg(ep_, &message, 0), "fi_recvmsg");  // postRecv() does not repeat it
}

// postSend().
void rail::send(std::uint64_t type, const std::string& text) {
  request& r = control_request();
  r.is_receive = false;
  std::memcpy(r.buffer, text.data(), text.size());
  post("fi_senddata", [&] {
    return fi_senddata(ep_, r.buffer, text.size(), fi_mr_desc(control_mr_), immediate(type), peer_,
                       &r.context);
  });
}

void rail::notify(const std::string& text) {
  send(notification, text);
  progress();
}

// useFiMore(): the last of a batch, and of all, goes without FI_MORE; postWrite().
void rail::write(const std::vector<page>& pages, fid_mr* local, std::uint64_t key) {
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const page& p = pages[i];
    const bool last = i + 1 == pages.size() || i % batch == batch - 1;
    void* desc = fi_mr_desc(local);
    const iovec where{p.local, p.size};
    const fi_rma_iov to{p.remote, p.size, key};
    fi_msg_rma message{};
    message.msg_iov = &where;
    message.desc = &desc;
    message.iov_count = 1;
    message.addr = peer_;
    message.rma_iov = &to;
    message.rma_iov_count = 1;
    message.context = &data_request().context;
    message.data = immediate(transfer);
    post("fi_writemsg",
         [&] { return fi_writemsg(ep_, &message, (last ? 0 : FI_MORE) | FI_REMOTE_CQ_DATA); });
  }
}

// postRead().
void rail::read(const std::vector<page>& pages, fid_mr* local, std::uint64_t key) {
  for (const page& p : pages) {
    request& r = data_request();
    post("fi_read", [&] {
      return fi_read(ep_, p.local, p.size, fi_mr_desc(local), peer_, p.remote, key, &r.context);
    });
  }
}

// RequestPool::allocateReq(); a pool of control requests has more than are used here.
rail::request& rail::control_request() {
  request* const r = free_control_.back();
  free_control_.pop_back();
  return *r;
}

rail::request& rail::data_request() {
  ++outstanding_;
  if (free_data_.empty()) return data_.emplace_back();
  request* const r = free_data_.back();
  free_data_.pop_back();
  return *r;
}

bool rail::progress() {
  std::array<fi_cq_data_entry, 16> entries{};  // NIXL_LIBFABRIC_CQ_BATCH_SIZE
  const ssize_t count = fi_cq_read(cq_, entries.data(), entries.size());
  if (count == -FI_EAGAIN) return false;
  must(count, "fi_cq_read");
  for (ssize_t i = 0; i < count; ++i) handle(entries[static_cast<std::size_t>(i)]);
  return true;
}

// processCompletionQueueEntry(): the flags are looked at in this order.
void rail::handle(const fi_cq_data_entry& entry) {
  auto* const r = static_cast<request*>(entry.op_context);
  if (entry.flags & FI_SEND) {
    free_control_.push_back(r);
  } else if (entry.flags & FI_RECV) {
    handle_receive(*r, entry);
  } else if (entry.flags & (FI_WRITE | FI_READ)) {
    --outstanding_;
    free_data_.push_back(r);
  } else if (entry.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) {
    written_ += type_of(entry.data) == transfer;
  } else {
    throw std::runtime_error("a completion of no known kind");
  }
}

// processRecvCompletion().
void rail::handle_receive(request& r, const fi_cq_data_entry& entry) {
  if (!r.is_receive) throw std::runtime_error("the receive's context is another's");
  const std::string text(reinterpret_cast<const char*>(r.buffer), entry.len);
  if (type_of(entry.data) == handshake)
    met_ = true;
  else if (type_of(entry.data) == notification)
    notifications.push_back(text);
  else
    throw std::runtime_error("a message of no known type");
  std::memset(r.buffer, 0, control_size);
  free_control_.push_back(&r);
  post_receive(control_request());
}

}  // namespace gaudi::test::nixl
