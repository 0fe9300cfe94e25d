// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/cq.hpp"

#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "fi/guard.hpp"
#include "fi/tables.hpp"

namespace gaudi::fi {
namespace {

constexpr std::size_t default_size = 1024;
// Of fi_cq_err_entry for an application that knows no src_addr, which came with 1.20.
constexpr std::size_t old_error_entry = sizeof(fi_cq_err_entry);
static_assert(old_error_entry == 80);

std::byte* write_entry(fi_cq_format format, std::byte* at, const proto::completion& c) noexcept {
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
                           int timeout) noexcept {
  return guarded([&] { return cq::of(c).wait_and_read(buf, count, sources, timeout); });
}
ssize_t wait_and_read(fid_cq* c, void* buf, std::size_t count, const void* condition,
                      int timeout) noexcept {
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

int close(fid_t f) noexcept {
  cq& self = cq::of(f);
  if (self.bound().any()) {
    GAUDI_INFO(CQ, "completion queue stays open: close its endpoints first\n");
    return -FI_EBUSY;
  }
  delete &self;
  return 0;
}

int control(fid_t f, int command, void*) noexcept {
  if (command != control_try_wait) return -FI_ENOSYS;
  cq& self = cq::of(f);
  const base::scoped_domain_lock hold(self.parent().lock());
  return self.entries().empty() ? 0 : -FI_EAGAIN;
}

fi_ops make_fid_ops() noexcept {
  fi_ops ops = only_close(close);
  ops.control = control;
  return ops;
}
fi_ops fid_ops = make_fid_ops();
fi_ops_cq cq_ops{.size = sizeof(fi_ops_cq),
                 .read = read,
                 .readfrom = read_from,
                 .readerr = read_error,
                 .sread = wait_and_read,
                 .sreadfrom = wait_and_read_from,
                 .signal = signal,
                 .strerror = error_text};

}  // namespace

cq::cq(domain& parent, const fi_cq_attr& attr, void* user_context)
    : fid_cq{.fid = {.fclass = FI_CLASS_CQ, .context = user_context, .ops = &fid_ops},
             .ops = &cq_ops},
      parent_(parent),
      hold_(parent.open_children()),
      format_(attr.format),
      entries_(attr.size ? attr.size : default_size) {}

ssize_t cq::read(void* buf, std::size_t count, fi_addr_t* sources) {
  const base::scoped_domain_lock hold(parent_.lock());
  if (entries_.empty() || count == 0) {
    parent_.progress();
    if (entries_.empty()) return -FI_EAGAIN;
  }
  auto* at = static_cast<std::byte*>(buf);
  std::size_t done = 0;
  while (done < count && !entries_.empty()) {
    const proto::completion& c = entries_.front();
    if (c.error) return done ? static_cast<ssize_t>(done) : -FI_EAVAIL;
    at = write_entry(format_, at, c);
    if (sources) sources[done] = c.source;
    entries_.pop();
    ++done;
  }
  return static_cast<ssize_t>(done);
}

// Without a wait object there is nothing to sleep on but time: spins first, as a message that is
// under way takes microseconds, then yields to others.
ssize_t cq::wait_and_read(void* buf, std::size_t count, fi_addr_t* sources, int timeout) {
  using clock = std::chrono::steady_clock;
  constexpr auto spin = std::chrono::microseconds(50);
  constexpr auto nap = std::chrono::microseconds(20);
  const auto start = clock::now();
  for (;;) {
    const ssize_t ret = read(buf, count, sources);
    if (ret != -FI_EAGAIN) return ret;
    if (signalled_.exchange(false, std::memory_order_acq_rel)) return -FI_EAGAIN;
    const auto waited = clock::now() - start;
    if (timeout >= 0 && waited >= std::chrono::milliseconds(timeout)) return -FI_EAGAIN;
    if (waited > spin) std::this_thread::sleep_for(nap);
  }
}

ssize_t cq::read_error(fi_cq_err_entry& out) {
  const base::scoped_domain_lock hold(parent_.lock());
  if (entries_.empty() || entries_.front().error == 0) return -FI_EAGAIN;
  const proto::completion& c = entries_.front();
  out.op_context = c.context;
  out.flags = c.flags;
  out.len = c.length;
  out.buf = c.buffer;
  out.data = c.data;
  out.tag = c.tag;
  out.olen = c.excess;
  out.err = c.error;
  out.prov_errno = c.error;
  // No provider data; the caller's buffer, if any, stays as it is.
  out.err_data_size = 0;
  if (FI_VERSION_GE(parent_.api_version(), FI_VERSION(1, 20))) {
    const fi_addr_t source = c.source;
    std::memcpy(reinterpret_cast<std::byte*>(&out) + old_error_entry, &source, sizeof source);
  }
  entries_.pop();
  return 1;
}

int cq_open(fid_domain* d, fi_cq_attr* attr, fid_cq** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!attr || !out) return -FI_EINVAL;
    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC) {
      GAUDI_INFO(CQ, "wait object %d is not offered\n", attr->wait_obj);
      return -FI_ENOSYS;
    }
    if (attr->format > FI_CQ_FORMAT_TAGGED) return -FI_EINVAL;
    if (attr->format == FI_CQ_FORMAT_UNSPEC) attr->format = FI_CQ_FORMAT_CONTEXT;
    *out = new cq(domain::of(d), *attr, context);
    return 0;
  });
}

}  // namespace gaudi::fi
