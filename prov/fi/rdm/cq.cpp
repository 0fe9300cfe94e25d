// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/cq.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {
namespace {

constexpr std::size_t default_size = 1024;
// Of fi_cq_err_entry for an application that knows no src_addr, which came with 1.20.
constexpr std::size_t old_error_entry =
    offsetof(fi_cq_err_entry, err_data_size) + sizeof(fi_cq_err_entry::err_data_size);
static_assert(old_error_entry == 80);

std::byte* write_entry(fi_cq_format format, std::byte* at, const proto::cq_entry& c) noexcept {
  const auto put = [&](const auto& entry) {
    std::memcpy(at, &entry, sizeof entry);
    return at + sizeof entry;
  };
  switch (format) {
    case FI_CQ_FORMAT_MSG:
      return put(fi_cq_msg_entry{c.context, c.flags, c.length});
    case FI_CQ_FORMAT_DATA:
      return put(fi_cq_data_entry{c.context, c.flags, c.length, c.buffer, c.data});
    case FI_CQ_FORMAT_TAGGED:
      return put(fi_cq_tagged_entry{c.context, c.flags, c.length, c.buffer, c.data, c.tag});
    case FI_CQ_FORMAT_CONTEXT:
    case FI_CQ_FORMAT_UNSPEC:
      break;
  }
  return put(fi_cq_entry{c.context});
}

ssize_t read_from(fid_cq* c, void* buf, std::size_t count, fi_addr_t* sources) noexcept {
  return guarded([&] { return cq::of(c).read(buf, count, sources); });
}
ssize_t read(fid_cq* c, void* buf, std::size_t count) noexcept {
  return read_from(c, buf, count, nullptr);
}

ssize_t read_error(fid_cq* c, fi_cq_err_entry* buf, std::uint64_t) noexcept {
  return guarded([&] { return cq::of(c).read_error(*buf); });
}

// The condition is a hint that the application may not need (fi_cq(3)): any completion ends the
// wait.
ssize_t wait_and_read_from(fid_cq* c, void* buf, std::size_t count, fi_addr_t* sources, const void*,
                           int timeout) {
  return guarded_sleeping([&] { return cq::of(c).wait_and_read(buf, count, sources, timeout); });
}
ssize_t wait_and_read(fid_cq* c, void* buf, std::size_t count, const void* condition, int timeout) {
  return wait_and_read_from(c, buf, count, nullptr, condition, timeout);
}

int signal(fid_cq* c) noexcept {
  cq::of(c).signal();
  return 0;
}

const char* error_text(fid_cq*, int prov_errno, const void*, char* buf, std::size_t len) noexcept {
  const char* text = fi_strerror(prov_errno);
  if (buf && len) {
    std::strncpy(buf, text, len - 1);
    buf[len - 1] = '\0';
  }
  return text;
}

int close_queue(fid_t f) noexcept {
  cq& self = cq::of(f);
  if (self.parent().used_after_fork()) return 0;
  if (self.bound().any()) {
    GAUDI_INFO(CQ, "completion queue stays open: close its endpoints first\n");
    return -FI_EBUSY;
  }
  delete &self;
  return 0;
}

int control_queue(fid_t f, int command, void* arg) noexcept {
  return guarded_int([&] { return cq::of(f).control(command, arg); });
}

fi_ops make_queue_fid_ops() noexcept {
  fi_ops ops = only_close<close_queue>();
  ops.control = control_queue;
  return ops;
}
fi_ops cq_fid_ops = make_queue_fid_ops();
padded<fi_ops_cq> cq_ops{{.size = sizeof(fi_ops_cq),
                          .read = read,
                          .readfrom = read_from,
                          .readerr = read_error,
                          .sread = wait_and_read,
                          .sreadfrom = wait_and_read_from,
                          .signal = signal,
                          .strerror = error_text}};

}  // namespace

cq::cq(domain& parent, const fi_cq_attr& attr, std::unique_ptr<wait_object> object,
       void* user_context)
    : fid_cq{.fid = {.fclass = FI_CLASS_CQ, .context = user_context, .ops = &cq_fid_ops},
             .ops = &cq_ops},
      parent_(parent),
      hold_(parent.open_children()),
      format_(attr.format),
      wait_obj_(attr.wait_obj),
      object_(std::move(object)),
      entries_(attr.size ? attr.size : default_size, object_ ? &object_->waker() : nullptr) {}

void cq::signal() noexcept {
  signalled_.store(true, std::memory_order_release);
  if (object_) object_->waker().ring();
}

int cq::control(int command, void* arg) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  if (command != control_try_wait) return get_wait_object(object_.get(), wait_obj_, command, arg);
  const base::scoped_domain_lock lock(parent().lock());
  if (!entries_.empty()) return -FI_EAGAIN;
  if (object_) object_->waker().arm();
  if (const int ret = parent().try_wait()) return ret;
  return entries_.empty() ? 0 : -FI_EAGAIN;
}

void cq::serve(proto::endpoint& e) {
  if (std::find(served_.begin(), served_.end(), &e) == served_.end()) served_.push_back(&e);
}

void cq::forget(proto::endpoint& e) noexcept {
  std::erase(served_, &e);
}

ssize_t cq::read(void* buf, std::size_t count, fi_addr_t* sources) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(parent().lock());
  if (entries_.empty() || count == 0) {
    parent().endpoints().poll_for(served_);
    if (entries_.empty()) return entries_.overrun() ? -FI_EOVERRUN : -FI_EAGAIN;
  }
  auto* at = static_cast<std::byte*>(buf);
  std::size_t done = 0;
  while (done < count && !entries_.empty()) {
    const proto::cq_entry& c = entries_.front();
    if (c.error) return done ? static_cast<ssize_t>(done) : -FI_EAVAIL;
    at = write_entry(format_, at, c);
    if (sources) sources[done] = c.source;
    entries_.pop();
    ++done;
  }
  return static_cast<ssize_t>(done);
}

ssize_t cq::wait_and_read(void* buf, std::size_t count, fi_addr_t* sources, int timeout) {
  sleeper pause(parent_, object_.get(), timeout);
  for (;;) {
    const ssize_t ret = read(buf, count, sources);
    if (ret != -FI_EAGAIN) return ret;
    if (signalled_.exchange(false, std::memory_order_acq_rel)) return -FI_EAGAIN;
    if (pause.timed_out()) return -FI_EAGAIN;
    pause.spin_or_block([&] {
      parent().lock().assert_held();
      return !entries_.empty() || signalled_.load(std::memory_order_acquire);
    });
  }
}

// The source address of a message from a sender that the address vector does not know; else there
// is no data, and the caller's buffer stays as it is.
void cq::give_error_data(const proto::cq_entry& c, fi_cq_err_entry& out) {
  if (!c.unknown_source || c.error != FI_EADDRNOTAVAIL) {
    out.err_data_size = 0;
    return;
  }
  unknown_source_ = entries_.take_unknown_source();
  const bool callers = FI_VERSION_GE(parent().api_version(), FI_VERSION(1, 5)) && out.err_data_size;
  if (callers) {
    out.err_data_size = std::min(out.err_data_size, unknown_source_.length());
    std::memcpy(out.err_data, unknown_source_.raw(), out.err_data_size);
  } else {
    out.err_data = const_cast<sockaddr*>(unknown_source_.raw());
    out.err_data_size = unknown_source_.length();
  }
}

ssize_t cq::read_error(fi_cq_err_entry& out) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(parent().lock());
  if (entries_.empty() || entries_.front().error == 0) return -FI_EAGAIN;
  const proto::cq_entry& c = entries_.front();
  out.op_context = c.context;
  out.flags = c.flags;
  out.len = c.length;
  out.buf = c.buffer;
  out.data = c.data;
  out.tag = c.tag;
  out.olen = c.truncated_bytes;
  out.err = c.error;
  out.prov_errno = c.error;
  give_error_data(c, out);
  if (FI_VERSION_GE(parent().api_version(), FI_VERSION(1, 20))) {
    const fi_addr_t source = c.source;
    std::memcpy(reinterpret_cast<std::byte*>(&out) + old_error_entry, &source, sizeof source);
  }
  entries_.pop();
  return 1;
}

int cq_open(fid_domain* d, fi_cq_attr* attr, fid_cq** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!attr || !out) return -FI_EINVAL;
    if (attr->format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
    if (attr->format == FI_CQ_FORMAT_UNSPEC) attr->format = FI_CQ_FORMAT_CONTEXT;
    domain& parent = domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(parent.lock());
    auto object = wait_object::open(parent, attr->wait_obj);
    if (!object) return object.code();
    *out = new cq(parent, *attr, std::move(*object), context);
    return 0;
  });
}

}  // namespace gaudi::fi
