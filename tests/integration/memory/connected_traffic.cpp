// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "traffic.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t length = 4096;
constexpr std::chrono::seconds too_long{20};

/// One of the two ends of a connection, in one domain.
struct connected_end {
  fid_cq* queue = nullptr;
  fid_ep* endpoint = nullptr;
};

struct connection {
  fid_fabric* fabric = nullptr;
  fid_eq* events = nullptr;
  fid_domain* domain = nullptr;
  fid_pep* listener = nullptr;
  fid_mr* region = nullptr;
  connected_end asks;
  connected_end answers;
  std::array<std::byte, 2 * length> memory{};  // half of it for each
  std::uint64_t base = 0;                      // of the region, for peers
};

connection all;

int open_end(connected_end& e, fi_info* info) {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_DATA;
  OR_RETURN(fi_cq_open(all.domain, &attr, &e.queue, nullptr));
  OR_RETURN(fi_endpoint(all.domain, info, &e.endpoint, nullptr));
  OR_RETURN(fi_ep_bind(e.endpoint, &all.events->fid, 0));
  OR_RETURN(fi_ep_bind(e.endpoint, &e.queue->fid, FI_TRANSMIT | FI_RECV));
  return fi_enable(e.endpoint);
}

int error_of_event() {
  fi_eq_err_entry error{};
  return fi_eq_readerr(all.events, &error, 0) > 0 ? -error.err : -FI_EOTHER;
}

/// The info of a request is the caller's.
int next_event(std::uint32_t wanted, fi_info** request) {
  const auto give_up = std::chrono::steady_clock::now() + too_long;
  alignas(fi_eq_cm_entry) std::array<std::byte, 256> buffer{};
  std::uint32_t event = 0;
  ssize_t got = -FI_EAGAIN;
  while ((got = fi_eq_read(all.events, &event, buffer.data(), buffer.size(), 0)) == -FI_EAGAIN)
    if (std::chrono::steady_clock::now() > give_up) return -FI_ETIMEDOUT;
  if (got == -FI_EAVAIL) return error_of_event();
  if (got < 0) return static_cast<int>(got);
  fi_info* const info = reinterpret_cast<const fi_eq_cm_entry*>(buffer.data())->info;
  if (event == FI_CONNREQ) *request = info;
  return event == wanted ? 0 : -FI_EOTHER;
}

int answer() {
  fi_info* request = nullptr;
  int ret = next_event(FI_CONNREQ, &request);
  if (!ret) ret = open_end(all.answers, request);
  if (request && !all.answers.endpoint) fi_reject(all.listener, request->handle, nullptr, 0);
  fi_freeinfo(request);
  return ret ? ret : fi_accept(all.answers.endpoint, nullptr, 0);
}

int connect(fi_info* info) {
  OR_RETURN(fi_fabric(info->fabric_attr, &all.fabric, nullptr));
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  OR_RETURN(fi_eq_open(all.fabric, &attr, &all.events, nullptr));
  OR_RETURN(fi_domain(all.fabric, info, &all.domain, nullptr));
  const bool is_virtual = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  all.base = is_virtual ? reinterpret_cast<std::uint64_t>(all.memory.data()) : 0;
  OR_RETURN(fi_passive_ep(all.fabric, info, &all.listener, nullptr));
  OR_RETURN(fi_pep_bind(all.listener, &all.events->fid, 0));
  OR_RETURN(fi_listen(all.listener));
  std::array<std::byte, 64> name{};
  std::size_t size = name.size();
  OR_RETURN(fi_getname(&all.listener->fid, name.data(), &size));
  OR_RETURN(open_end(all.asks, info));
  OR_RETURN(fi_connect(all.asks.endpoint, name.data(), nullptr, 0));
  OR_RETURN(answer());
  OR_RETURN(next_event(FI_CONNECTED, nullptr));
  return next_event(FI_CONNECTED, nullptr);
}

int wait_for_one(const connected_end& e) {
  const auto give_up = std::chrono::steady_clock::now() + too_long;
  fi_cq_data_entry entry{};
  ssize_t got = -FI_EAGAIN;
  while ((got = fi_cq_read(e.queue, &entry, 1)) == -FI_EAGAIN) {
    fi_cq_read((&e == &all.asks ? all.answers : all.asks).queue, nullptr, 0);
    if (std::chrono::steady_clock::now() > give_up) return -FI_ETIMEDOUT;
  }
  return got == 1 ? 0 : static_cast<int>(got);
}

template <class Call>
int repeat(Call&& call) {
  const auto give_up = std::chrono::steady_clock::now() + too_long;
  ssize_t ret = -FI_EAGAIN;
  while ((ret = call()) == -FI_EAGAIN) {
    for (const connected_end* e : {&all.asks, &all.answers}) fi_cq_read(e->queue, nullptr, 0);
    if (std::chrono::steady_clock::now() > give_up) return -FI_ETIMEDOUT;
  }
  return static_cast<int>(ret);
}

/// 1: the second half has other bytes than the first.
int compare() {
  return std::memcmp(all.memory.data(), all.memory.data() + length, length) != 0;
}

int exchange() {
  const iovec range{all.memory.data(), all.memory.size()};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  OR_RETURN(fi_mr_regattr(all.domain, &attr, 0, &all.region));
  void* const desc = fi_mr_desc(all.region);
  std::byte* const sent = all.memory.data();
  std::byte* const received = sent + length;
  fid_ep* const from = all.asks.endpoint;
  std::memset(sent, 1, length);
  OR_RETURN(repeat([&] {
    return fi_recv(all.answers.endpoint, received, length, desc, FI_ADDR_UNSPEC, nullptr);
  }));
  OR_RETURN(repeat([&] { return fi_send(from, sent, length, desc, FI_ADDR_UNSPEC, nullptr); }));
  OR_RETURN(wait_for_one(all.answers));
  OR_RETURN(wait_for_one(all.asks));
  if (compare() != 0) return 1;
  std::memset(received, 2, length);
  const std::uint64_t at = all.base + length;
  const std::uint64_t key = fi_mr_key(all.region);
  OR_RETURN(
      repeat([&] { return fi_read(from, sent, length, desc, FI_ADDR_UNSPEC, at, key, nullptr); }));
  OR_RETURN(wait_for_one(all.asks));
  return compare();
}

int traffic() {
  fi_info* const hints = fi_allocinfo();
  if (!hints) return -FI_ENOMEM;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = ::strdup("gaudi");
  fi_info* info = nullptr;
  int ret = fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info);
  fi_freeinfo(hints);
  if (!ret) ret = connect(info);
  fi_freeinfo(info);
  return ret ? ret : exchange();
}

void close() {
  const auto fid_of = [](auto* object) { return object ? &object->fid : nullptr; };
  for (fid_t f : {fid_of(all.asks.endpoint), fid_of(all.answers.endpoint), fid_of(all.listener),
                  fid_of(all.asks.queue), fid_of(all.answers.queue), fid_of(all.region),
                  fid_of(all.domain), fid_of(all.events), fid_of(all.fabric)})
    if (f) fi_close(f);
  all = {};
}

}  // namespace

outcome run_connected_traffic() {
  const int ret = traffic();
  close();
  return outcome_of(ret);
}

}  // namespace gaudi::test
