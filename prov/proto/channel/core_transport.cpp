// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/core_transport.hpp"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "core/cq_error.hpp"
#include "proto/operation/direct_op.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t largest_inline = 256;  // the packets on the stack, here and of senders
constexpr std::size_t buffers_per_slab = 64;
constexpr std::size_t send_buffer_limit = 4096;
// Some cores keep lengths in 32 bits, whatever they say.
constexpr std::size_t max_operation = std::size_t{1} << 30;
// For all peers together, where the core's completion queue does not grow.
constexpr std::size_t operations_at_core = 4096;

// Before libfabric 1.18 tcp looks for data with one poll(2) over the sockets of all connections, a
// tenth of a microsecond for each, where nobody can wait for the queue; else it keeps an epoll set.
bool polls_each_socket(const core::inner_domain& core) noexcept {
  return !core.over_rdma() && fi_version() < FI_VERSION(1, 18);
}

// Puts credits that did not leave back into a connection's windows.
class windows_restored {
 public:
  explicit windows_restored(connection& c) noexcept
      : connection_(c), data_(c.data), control_(c.control) {}
  void restore() noexcept {
    connection_.data = data_;
    connection_.control = control_;
  }

 private:
  connection& connection_;
  const credit_window data_;
  const credit_window control_;
};

// Of a message, at another NIC than the domain's own. 0, or -FI_ENOMEM: that does not take the
// memory.
int descriptors_at(reg::other_nic& nic, const buffer& b, std::span<void*> descriptors) noexcept {
  descriptors[0] = b.descriptor_at(nic);
  bool any_missing = !descriptors[0];
  for (std::size_t i = 0; i < b.gathered.count(); ++i) {
    descriptors[i + 1] = b.gathered[i].descriptor_at(nic);
    any_missing = any_missing || !descriptors[i + 1];
  }
  return any_missing && nic.core().needs_local_mr() ? -FI_ENOMEM : 0;
}

}  // namespace

// The core knows already that the connection is lost: with a session that is no failure, and what
// is posted waits.
int answer_of_core(const connection& c, ssize_t ret) noexcept {
  if (ret == 0 || !c.session.is_kept) return static_cast<int>(ret);
  return core::cause_of(static_cast<int>(-ret), 0, false) == FI_ECONNRESET ? -FI_EAGAIN
                                                                           : static_cast<int>(ret);
}

core_transport::core_transport(core::inner_domain& core, std::size_t message_size,
                               std::size_t operations) noexcept
    : core_(core),
      is_stream_(!core.over_rdma()),
      max_operations_(operations),
      messages_(core, posted_op::kind::message, message_size, buffers_per_slab, send_buffer_limit) {
}

// Each receive that is posted, and each operation that we have the core do, takes one entry.
fi_cq_attr core_transport::queue_attributes() const noexcept {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = waitable_ || polls_each_socket(core_) ? FI_WAIT_FD : FI_WAIT_NONE;
  attr.size = receives_ + operations_at_core;
  return attr;
}

base::result<void> core_transport::open(std::size_t receives, bool waitable) {
  waitable_ = waitable;
  receives_ = receives;
  fi_cq_attr attr = queue_attributes();
  max_posted_ = max_operations_     ? max_operations_
                : core_.over_rdma() ? operations_at_core
                                    : SIZE_MAX;
  fid_cq* queue = nullptr;
  if (const int ret = fi_cq_open(core_.domain(), &attr, &queue, nullptr)) return base::error{ret};
  queue_.reset(queue);
  limits_.max_inlined = core_.info().tx_attr->inject_size;
  limits_.max_operation = std::min(core_.info().ep_attr->max_msg_size, max_operation);
  limits_.max_inject = std::min(core_.info().tx_attr->inject_size, largest_inline);
  return {};
}

base::result<fid_cq*> core_transport::open_also(const core::inner_domain& other) {
  fid_cq* queue = nullptr;
  if (others_.size() == wire::max_rails) return base::error{-FI_ENOSPC};
  fi_cq_attr attr = queue_attributes();
  others_.reserve(others_.size() + 1);
  if (const int ret = fi_cq_open(other.domain(), &attr, &queue, nullptr)) return base::error{ret};
  others_.emplace_back(queue);
  return queue;
}

base::result<void> core_transport::open_wait_fds(fid* events, int alarm) {
  const source_list from = sources(events);
  for (fid* f : std::span(from.all).first(from.count)) {
    int fd = -1;
    if (const int ret = fi_control(f, FI_GETWAIT, &fd)) {
      GAUDI_WARN(EP_CTRL, "the core provider has no file descriptor to wait on: %s\n",
                 fi_strerror(-ret));
      return base::error{ret};
    }
    if (f == events)
      wait_fds_.set_events(fd);
    else
      wait_fds_.add_queue(fd);
  }
  if (alarm != -1) wait_fds_.set_alarm(alarm);
  return {};
}

void core_transport::close() noexcept {
  others_.clear();
  queue_.reset();
  wait_fds_.clear();
}

core_transport::source_list core_transport::sources(fid* events) const noexcept {
  source_list from{.all = {&queue_->fid}, .count = 1};
  for (const auto& other : others_) from.all[from.count++] = &other->fid;
  from.all[from.count++] = events;
  return from;
}

int core_transport::try_wait(fid* events) const noexcept {
  source_list from = sources(events);
  return fi_trywait(core_.fabric(), from.all.data(), static_cast<int>(from.count));
}

int core_transport::inject(connection& c, std::byte* packet, std::size_t length) noexcept {
  session& s = c.session;
  if (s.is_kept && !s.packets.reserve(length)) [[unlikely]]
    return -FI_EAGAIN;
  windows_restored windows(c);
  auto& head = *reinterpret_cast<wire::header*>(packet);
  c.fill_header(head, head.what, head.flags);
  s.number(head);
  const int ret = answer_of_core(c, fi_inject(c.ep.get(), packet, length, 0));
  if (ret) {
    windows.restore();
    s.take_back();
  } else if (s.is_kept) {
    s.owes_word = false;
    s.packets.add(packet, length);
  }
  return ret;
}

int core_transport::send(connection& c, buffer& b) {
  session& s = c.session;
  if (!has_room(c) || (s.is_kept && !s.packets.reserve(0))) [[unlikely]]
    return -FI_EAGAIN;
  windows_restored windows(c);
  auto& head = *reinterpret_cast<wire::header*>(b.bytes);
  c.fill_header(head, head.what, head.flags);
  s.number(head);
  const int ret = post_message(c, b);
  if (ret) {
    windows.restore();
    s.take_back();
    return ret;
  }
  if (s.is_kept) {
    s.owes_word = false;
    b.number = s.sent;
    b.session.kept = true;
    s.packets.add(b);
  } else {
    b.gathered.truncate(0);
  }
  return 0;
}

// It is complete, but for what it gathers.
int core_transport::post_message(connection& c, buffer& b) {
  std::array<iovec, 1 + local_memory::max_segments> parts;
  std::array<void*, parts.size()> descriptors;
  fi_msg message{};
  message.msg_iov = parts.data();
  message.desc = descriptors.data();
  parts[0] = {b.bytes, b.length};
  descriptors[0] = b.descriptor();
  message.iov_count = 1;
  for (std::size_t i = 0; i < b.gathered.count(); ++i) {
    const local_segment& s = b.gathered[i];
    parts[message.iov_count] = {s.host(), s.length};
    descriptors[message.iov_count++] = s.core_descriptor();
  }
  message.context = b.context();
  const base::cancellation_deferred while_the_core_sends;
  if (reg::other_nic* const nic = c.nic()) [[unlikely]]
    if (const int ret = descriptors_at(*nic, b, descriptors)) return ret;
  const ssize_t ret =
      fi_sendmsg(c.ep.get(), &message, FI_COMPLETION | (b.transmit ? FI_TRANSMIT_COMPLETE : 0));
  if (ret) return answer_of_core(c, ret);
  b.session.at_core = true;
  list(c, b);
  return 0;
}

int core_transport::send_resume(connection& c) {
  const wire::header head{wire::kind::resume, 0, 0, 0, c.terms.connection_id, 0,
                          c.session.received};
  if (sizeof head <= limits_.max_inject) {
    const base::cancellation_deferred while_the_core_sends;
    return answer_of_core(c, fi_inject(c.ep.get(), &head, sizeof head, 0));
  }
  buffer* const b = posted_ < max_posted_ ? messages_.acquire() : nullptr;
  if (!b) return -FI_EAGAIN;
  std::memcpy(b->bytes, &head, sizeof head);
  b->begin_message(sizeof head);
  const int ret = post_message(c, *b);
  if (ret) messages_.release(*b);
  return ret;
}

int core_transport::send_again(connection& c, const sent_packets::packet& lost) {
  std::byte* const bytes = lost.whole ? lost.whole->bytes : lost.bytes.data();
  reinterpret_cast<wire::header*>(bytes)->received = c.session.received;
  if (lost.whole) return posted_ < max_posted_ ? post_message(c, *lost.whole) : -FI_EAGAIN;
  const base::cancellation_deferred while_the_core_sends;
  return answer_of_core(c, fi_inject(c.ep.get(), bytes, lost.bytes.size(), 0));
}

int core_transport::send_uncounted(connection& c, const wire::header& packet, std::size_t length) {
  if (!c.usable()) return -FI_EAGAIN;
  if (length > limits_.max_inject) {
    buffer* b = messages_.acquire();
    if (!b) return -FI_EAGAIN;
    std::memcpy(b->bytes, &packet, length);
    b->begin_message(length);
    const int ret = send(c, *b);
    if (ret) messages_.release(*b);
    return ret;
  }
  alignas(8) std::byte bytes[sizeof(wire::credit_fields)];
  std::memcpy(bytes, &packet, length);
  const base::cancellation_deferred while_the_core_sends;
  return inject(c, bytes, length);
}

int core_transport::post(connection& c, rail& on, posted_op& w, const rma_request& operation) {
  return post_on<true>(c, on.ep.get(), on.posted, w, operation);
}

int core_transport::post_probe(connection& c, posted_op& probe) {
  if (!has_room(c)) return -FI_EAGAIN;
  fi_rma_iov nowhere{};
  const fi_msg_rma message{.msg_iov = nullptr,
                           .desc = nullptr,
                           .iov_count = 0,
                           .addr = 0,
                           .rma_iov = &nowhere,
                           .rma_iov_count = 1,
                           .context = probe.context(),
                           .data = 0};
  const base::cancellation_deferred while_the_core_posts;
  const ssize_t ret = fi_writemsg(c.ep.get(), &message, FI_COMPLETION);
  if (ret) return static_cast<int>(ret);
  probe.number = c.session.sent;
  probe.rail = posted_op::of_probe;
  list(c, probe);
  return 0;
}

void core_transport::connection_down(connection& c, int error) {
  abandon(c.at_core.posted, error);
  if (!c.at_core.rails) return;
  for (rail& r : c.at_core.rails->rails) abandon(r.posted, error);
}

void core_transport::abandon(posted_op_list& posted, int error) {
  while (!posted.empty()) {
    posted_op& w = posted.front();
    posted.pop_front();
    w.connection = nullptr;
    if (w.what == posted_op::kind::probe) continue;
    w.rail = 0;
    if (w.what == posted_op::kind::piece) {
      auto& piece = static_cast<rma_op&>(w);
      piece.owner = nullptr;
      piece.local = {};
    } else if (w.what == posted_op::kind::direct) {
      static_cast<direct_op&>(w).fail(error);
    } else if (w.what == posted_op::kind::fence) {
      auto& fence = static_cast<fence_op&>(w);
      fence.owner = nullptr;
      if (fence.chunk) fence.chunk->owner = nullptr;
    } else {
      auto& b = static_cast<buffer&>(w);
      b.owner = nullptr;
      b.on_sent.end({.error = error});
      b.on_sent = {};
    }
  }
}

core_transport::failed_op core_transport::read_error(fid_cq* queue) noexcept {
  // Newer releases write a longer entry than this version declares.
  union {
    fi_cq_err_entry entry;
    std::byte space[256];
  } error{};
  if (fi_cq_readerr(queue, &error.entry, 0) < 1 || !error.entry.op_context) return {};
  return {&posted_op::from_context(error.entry.op_context), core::cause_of(error.entry, core_)};
}

}  // namespace gaudi::proto
