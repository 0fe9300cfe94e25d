// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "side.hpp"

#include <poll.h>
#include <rdma/fi_cm.h>

#include <cstring>
#include <thread>
#include <type_traits>

namespace gaudi::test {

int find(std::uint64_t caps, fi_info** info) {
  fi_info* const hints = fi_allocinfo();
  if (!hints) return -FI_ENOMEM;
  hints->caps = caps;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                FI_MR_HMEM | FI_MR_ENDPOINT;
  hints->domain_attr->control_progress = hints->domain_attr->data_progress =
      automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  hints->fabric_attr->prov_name = ::strdup("gaudi");
  const int ret = fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, info);
  fi_freeinfo(hints);
  return ret;
}

int open_domain(side& s, fi_info* info) {
  OR_RETURN(fi_fabric(info->fabric_attr, &s.fabric, nullptr));
  OR_RETURN(fi_domain(s.fabric, info, &s.domain, nullptr));
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_TAGGED;
  cq.wait_obj = automatic ? FI_WAIT_FD : FI_WAIT_NONE;
  OR_RETURN(fi_cq_open(s.domain, &cq, &s.queue, nullptr));
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  OR_RETURN(fi_av_open(s.domain, &av, &s.addresses, nullptr));
  if ((info->caps & FI_HMEM) == 0) return 0;
  return fi_open_ops(&s.domain->fid, FI_GAUDI_DOMAIN_OPS, 0, reinterpret_cast<void**>(&s.gaudi),
                     nullptr);
}

int open_endpoint(side& s, fi_info* info, fid_ep** endpoint) {
  OR_RETURN(fi_endpoint(s.domain, info, endpoint, nullptr));
  OR_RETURN(fi_ep_bind(*endpoint, &s.queue->fid, FI_TRANSMIT | FI_RECV));
  return fi_ep_bind(*endpoint, &s.addresses->fid, 0);
}

int register_memory(side& s) {
  const iovec range{s.memory(), longest};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  attr.iface = s.device_memory ? FI_HMEM_SYNAPSEAI : FI_HMEM_SYSTEM;
  if (s.device_memory) OR_RETURN(s.gaudi->selected_device(s.domain, &attr.device.synapseai));
  return fi_mr_regattr(s.domain, &attr, 0, &s.region);
}

namespace {

void close_side(side& s) {
  const auto fid_of = [](auto* object) { return object ? &object->fid : nullptr; };
  for (fid_t f : {fid_of(s.endpoint), fid_of(s.second), fid_of(s.shared), fid_of(s.region),
                  fid_of(s.addresses), fid_of(s.counter), fid_of(s.queue)})
    if (f) fi_close(f);
  if (s.device_memory && s.pool)
    s.gaudi->pool_free(s.domain, s.pool, s.device_memory);
  else if (s.device_memory)
    s.gaudi->free(s.domain, s.device_memory);
  if (s.pool) s.gaudi->pool_destroy(s.domain, s.pool);
  if (s.domain) fi_close(&s.domain->fid);
  if (s.fabric) fi_close(&s.fabric->fid);
  s = {};
}

}  // namespace

void close_both() {
  std::thread at_the_same_time([] { close_side(a); });
  close_side(b);
  at_the_same_time.join();
}

int introduce(side& to, fid_ep* endpoint, fi_addr_t* peer) {
  std::array<char, 64> name{};
  std::size_t length = name.size();
  OR_RETURN(fi_getname(&endpoint->fid, name.data(), &length));
  const int added = fi_av_insert(to.addresses, name.data(), 1, peer, 0, nullptr);
  return added == 1 ? 0 : -FI_ENOMEM;
}

namespace {

void note(side& s, const fi_cq_tagged_entry& entry) {
  const auto count = static_cast<std::size_t>(s.completions++);
  if (count >= s.places.size()) return;
  const auto at = static_cast<std::byte*>(entry.buf) - s.memory();
  s.places[count] = {static_cast<std::size_t>(at), entry.len};
}

// A call that says that it failed ends the run as an operation that fails does.
void progress(side& s) {
  fi_cq_tagged_entry entry{};
  const ssize_t got = fi_cq_read(s.queue, &entry, 1);
  if (got == 1) note(s, entry);
  if (got == -FI_EAVAIL) {
    union {
      fi_cq_err_entry entry;
      std::byte space[256];
    } error{};
    if (fi_cq_readerr(s.queue, &error.entry, 0) == 1) s.failed = error.entry.err;
  } else if (got < 0 && got != -FI_EAGAIN) {
    s.failed = static_cast<int>(-got);
  }
}

using time_point = std::chrono::steady_clock::time_point;

/// With FI_PROGRESS_AUTO: until the provider's threads have brought something.
void await_news(time_point end) {
  std::array<pollfd, 2> news{{{-1, POLLIN, 0}, {-1, POLLIN, 0}}};
  std::size_t which = 0;
  for (const side* s : {&a, &b}) {
    fid* queue = &s->queue->fid;
    if (fi_control(queue, FI_GETWAIT, &news[which++].fd) != 0) return;
    if (fi_trywait(s->fabric, &queue, 1) != 0) return;
  }
  const auto rest =
      std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  if (rest.count() > 0) ::poll(news.data(), news.size(), static_cast<int>(rest.count()));
}

/// A connection that is there is no news.
void nap(time_point) {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// 0, or the first error there is; -FI_ETIMEDOUT: it hangs. `rest`: before each look, with
/// FI_PROGRESS_AUTO.
template <class Done>
int progress_until(Done&& done, void (*rest)(time_point)) {
  const auto give_up = std::chrono::steady_clock::now() + hang;
  while (!done()) {
    if (automatic) rest(give_up);
    progress(a);
    progress(b);
    if (a.failed || b.failed) return -(a.failed ? a.failed : b.failed);
    if (std::chrono::steady_clock::now() > give_up) return -FI_ETIMEDOUT;
  }
  return 0;
}

}  // namespace

int post_again(ssize_t (*call)(void*), void* of) {
  ssize_t ret = -FI_EAGAIN;
  const int waited = progress_until([&] { return (ret = call(of)) != -FI_EAGAIN; }, nap);
  return waited ? waited : static_cast<int>(ret);
}

int wait_for(int of_a, int of_b) {
  const auto all_there = [&] { return a.completions >= of_a && b.completions >= of_b; };
  const int ret = progress_until(all_there, await_news);
  a.completions = b.completions = 0;
  return ret;
}

int copy_to_device(side& s, std::size_t length) {
  if (!s.device_memory) return 0;
  return s.gaudi->copy(s.domain, s.device_memory, reinterpret_cast<std::uint64_t>(s.host.data()),
                       length, FI_GAUDI_HOST_TO_DEVICE);
}

int copy_from_device(side& s, std::size_t length) {
  if (!s.device_memory) return 0;
  return s.gaudi->copy(s.domain, reinterpret_cast<std::uint64_t>(s.host.data()), s.device_memory,
                       length, FI_GAUDI_DEVICE_TO_HOST);
}

std::byte byte_of(unsigned seed, std::size_t i) noexcept {
  return static_cast<std::byte>((i * 7 + seed) ^ (i >> 8));
}

int fill(side& s, unsigned seed, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) s.host[i] = byte_of(seed, i);
  return copy_to_device(s, length);
}

int check(side& s, unsigned seed, std::size_t length) {
  OR_RETURN(copy_from_device(s, length));
  for (std::size_t i = 0; i < length; ++i)
    if (s.host[i] != byte_of(seed, i)) return 1;
  return 0;
}

}  // namespace gaudi::test
