// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "node.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/let_others_run.hpp"

namespace gaudi::test {
namespace {

constexpr std::uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

}  // namespace

long must(long ret, const std::string& call) {
  if (ret < 0) throw std::runtime_error(call + ": " + fi_strerror(static_cast<int>(-ret)));
  return ret;
}

/// TEST_THREADING=domain in the environment takes the place of FI_THREAD_SAFE.
fi_threading threading_of(const node_options& options) {
  const char* wanted = std::getenv("TEST_THREADING");
  const bool domain = wanted && std::string_view(wanted) == "domain";
  return domain && options.threading == FI_THREAD_SAFE ? FI_THREAD_DOMAIN : options.threading;
}

info_ptr hints_for(const node_options& options) {
  info_ptr hints(fi_allocinfo());
  hints->caps = options.caps;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = options.mr_mode;
  hints->domain_attr->threading = threading_of(options);
  hints->domain_attr->av_type = options.av_type;
  hints->domain_attr->data_progress = options.progress;
  hints->domain_attr->control_progress = options.progress;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup(provider().c_str());
  if (options.device) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  return hints;
}

node::node(const node_options& options) : format_(options.cq_format) {
  const info_ptr hints = hints_for(options);
  fi_info* info = nullptr;
  must(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &info), "fi_getinfo");
  info_.reset(info);

  fid_fabric* fabric = nullptr;
  must(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  must(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
  domain_.reset(domain);

  fi_cq_attr cq_attr{};
  cq_attr.format = options.cq_format;
  cq_attr.size = 1024;
  cq_attr.wait_obj = options.wait;
  fid_cq* cq = nullptr;
  must(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
  cq_.reset(cq);
  fi_av_attr av_attr{};
  av_attr.type = options.av_type;
  fid_av* av = nullptr;
  must(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
  av_.reset(av);

  fid_ep* ep = nullptr;
  must(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
  ep_.reset(ep);
  const std::uint64_t selective = options.selective ? FI_SELECTIVE_COMPLETION : 0;
  if (options.queue)
    must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | selective), "binding the queue");
  open_counters(options);
  must(fi_ep_bind(ep, &av->fid, 0), "binding the address vector");
  must(fi_enable(ep), "fi_enable");
}

void node::open_counters(const node_options& options) {
  for (const std::uint64_t flags : options.counters) {
    fi_cntr_attr attr{};
    attr.events = FI_CNTR_EVENTS_COMP;
    attr.wait_obj = options.wait;
    fid_cntr* counter = nullptr;
    must(fi_cntr_open(domain_.get(), &attr, &counter, nullptr), "fi_cntr_open");
    counters_.emplace_back(counter);
    must(fi_ep_bind(ep_.get(), &counter->fid, flags), "binding a counter");
  }
}

std::string node::name() const {
  std::string name(256, '\0');
  std::size_t length = name.size();
  must(fi_getname(&ep_->fid, name.data(), &length), "fi_getname");
  name.resize(length);
  return name;
}

void node::meet(rank& r) {
  if (info_->domain_attr->data_progress != FI_PROGRESS_AUTO) r.set_idle_work([this] { poll(); });
  for (const std::string& name : r.all_gather(name())) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(av_.get(), name.data(), 1, &address, 0, nullptr) != 1)
      throw std::runtime_error("fi_av_insert refused a peer's name");
    peers_.push_back(address);
  }
}

fi_gaudi_ops& node::ops() const {
  void* ops = nullptr;
  must(fi_open_ops(&domain_->fid, FI_GAUDI_DOMAIN_OPS, 0, &ops, nullptr), "fi_open_ops");
  return *static_cast<fi_gaudi_ops*>(ops);
}

fi_gaudi_device_stats node::device_stats() const {
  fi_gaudi_device_stats stats{};
  must(ops().device_stats(domain_.get(), &stats), "device_stats");
  return stats;
}

fi_gaudi_path_stats node::paths() const {
  fi_gaudi_path_stats stats{};
  must(ops().path_stats(domain_.get(), &stats), "path_stats");
  return stats;
}

bool node::poll_entries() {
  // Each format is a prefix of the longer ones, so one entry of the longest holds any.
  fi_cq_tagged_entry entry{};
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  const ssize_t count = fi_cq_readfrom(cq_.get(), &entry, 1, &source);
  if (count == -FI_EAGAIN) return false;
  if (count == -FI_EAVAIL) {
    take_error();
    return true;
  }
  must(count, "fi_cq_readfrom");
  completion c{.context = entry.op_context, .source = source};
  if (format_ >= FI_CQ_FORMAT_MSG) {
    c.flags = entry.flags;
    c.len = entry.len;
  }
  if (format_ >= FI_CQ_FORMAT_DATA) {
    c.data = entry.data;
    c.buf = entry.buf;
  }
  if (format_ >= FI_CQ_FORMAT_TAGGED) c.tag = entry.tag;
  done_.push_back(c);
  return true;
}

void node::take_error() {
  // Newer libraries write a longer entry than the one this program was compiled with.
  union {
    fi_cq_err_entry entry;
    std::array<std::byte, 256> room;
  } error{};
  must(fi_cq_readerr(cq_.get(), &error.entry, 0), "fi_cq_readerr");
  done_.push_back({.context = error.entry.op_context,
                   .flags = error.entry.flags,
                   .len = error.entry.len,
                   .data = error.entry.data,
                   .tag = error.entry.tag,
                   .err = error.entry.err,
                   .olen = error.entry.olen});
}

void node::poll() {
  if (!poll_entries()) common::let_others_run();
}

std::optional<completion> node::take(void* context) {
  const auto found = std::find_if(done_.begin(), done_.end(),
                                  [&](const completion& c) { return c.context == context; });
  if (found == done_.end()) return std::nullopt;
  const completion c = *found;
  done_.erase(found);
  return c;
}

completion node::wait(void* context) {
  const deadline end;
  for (;;) {
    if (const auto c = take(context)) return *c;
    poll();
    end.check("waiting for a completion");
  }
}

std::optional<completion> node::take_any() {
  if (done_.empty()) return std::nullopt;
  const completion c = done_.front();
  done_.pop_front();
  return c;
}

completion node::wait_any() {
  const deadline end;
  while (done_.empty()) {
    poll();
    end.check("waiting for a completion");
  }
  const completion c = done_.front();
  done_.pop_front();
  return c;
}

bool node::has_completion() {
  for (int i = 0; i < 1000; ++i) poll_entries();
  return !done_.empty();
}

void node::deadline::check(const char* what) const {
  if (std::chrono::steady_clock::now() > end_)
    throw std::runtime_error(std::string("nothing happened for 60 s, ") + what);
}

int register_range(fid_domain* domain, void* base, std::size_t size, fi_hmem_iface iface,
                   std::uint64_t key, fid_ptr<fid_mr>& out, int number) {
  const iovec range{base, size};
  // Newer libraries read a longer structure than the one this program was compiled with.
  union {
    fi_mr_attr attr;
    std::array<std::byte, 256> room;
  } request{};
  request.attr.mr_iov = &range;
  request.attr.iov_count = 1;
  request.attr.access = all_access;
  request.attr.requested_key = key;
  request.attr.iface = iface;
  request.attr.device.synapseai = number;
  fid_mr* mr = nullptr;
  const int ret = fi_mr_regattr(domain, &request.attr, 0, &mr);
  if (ret == 0) out.reset(mr);
  return ret;
}

memory::memory(node& n, std::size_t size, bool device, std::uint64_t key)
    : node_(n), device_(device) {
  int number = 0;
  if (device) {
    must(n.ops().selected_device(n.domain(), &number), "selected_device");
    must(n.ops().alloc(n.domain(), size, &base_), "allocating device memory");
  } else {
    host_.resize(size);
    base_ = reinterpret_cast<std::uintptr_t>(host_.data());
  }
  must(register_range(n.domain(), at(0), size, device ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM, key,
                      mr_, number),
       "fi_mr_regattr");
}

memory::~memory() {
  mr_.reset();
  if (!device_) return;
  EXPECT_EQ(0, node_.ops().free(node_.domain(), base_));
}

std::uint64_t memory::remote(std::size_t offset) const {
  const bool by_address = (node_.info()->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return (by_address ? base_ : 0) + offset;
}

void memory::put(std::size_t offset, const std::vector<std::byte>& bytes) {
  if (!device_) {
    std::copy(bytes.begin(), bytes.end(), host_.begin() + static_cast<std::ptrdiff_t>(offset));
    return;
  }
  must(node_.ops().copy(node_.domain(), base_ + offset,
                        reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size(),
                        FI_GAUDI_HOST_TO_DEVICE),
       "copying to the device");
}

std::vector<std::byte> memory::get(std::size_t offset, std::size_t size) const {
  const auto begin = host_.begin() + static_cast<std::ptrdiff_t>(device_ ? 0 : offset);
  if (!device_) return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  std::vector<std::byte> bytes(size);
  must(node_.ops().copy(node_.domain(), reinterpret_cast<std::uintptr_t>(bytes.data()),
                        base_ + offset, size, FI_GAUDI_DEVICE_TO_HOST),
       "copying from the device");
  return bytes;
}

}  // namespace gaudi::test
