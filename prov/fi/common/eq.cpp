// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/eq.hpp"

#include <rdma/fi_errno.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {
namespace {

/// When the application leaves the size open.
constexpr std::size_t default_capacity = 256;

bool is_error(const fi_eq_err_entry& e) {
  return e.err != 0;
}

}  // namespace

fi_ops event_queue::fid_ops_{.size = sizeof(fi_ops),
                             .close = close,
                             .bind = not_supported,
                             .control = control,
                             .ops_open = not_supported,
                             .tostr = not_supported,
                             .ops_set = not_supported};
fi_ops_eq event_queue::eq_ops_{.size = sizeof(fi_ops_eq),
                               .read = read,
                               .readerr = read_error,
                               .write = write,
                               .sread = wait_and_read,
                               .strerror = error_text};

event_queue::event_queue(child_count& parent, const fi_eq_attr& attr, wait_object wait,
                         void* user_context)
    : fid_eq{.fid = {.fclass = FI_CLASS_EQ, .context = user_context, .ops = &fid_ops_},
             .ops = &eq_ops_},
      parent_(parent),
      capacity_(attr.size ? attr.size : default_capacity),
      flags_(attr.flags),
      wait_obj_(attr.wait_obj),
      wait_(std::move(wait)) {}

base::result<event_queue::wait_object> event_queue::open_wait_object() {
  auto set = base::event_set::open();
  if (!set) return set.failure();
  wait_object opened;
  opened.filled.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!opened.filled) return base::error{-errno};
  if (const int ret = set->add(opened.filled.get())) return base::error{ret};
  opened.set.emplace(*std::move(set));
  return opened;
}

int event_queue::open(child_count& parent, fi_eq_attr* attr, fid_eq** out, void* context) noexcept {
  const base::cancellation_deferred until_it_is_open;
  const fi_eq_attr wanted = attr ? *attr : fi_eq_attr{};
  wait_object wait;
  switch (wanted.wait_obj) {
    case FI_WAIT_NONE:
      break;
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD: {
      auto made = open_wait_object();
      if (!made) return made.code();
      wait = *std::move(made);
      break;
    }
    default:
      GAUDI_INFO(EQ, "event queues have the wait objects NONE, UNSPEC and FD, not %d\n",
                 wanted.wait_obj);
      return -FI_ENOSYS;
  }
  return guarded_int([&] {
    *out = new event_queue(parent, wanted, std::move(wait), context);
    return 0;
  });
}

int event_queue::close(fid_t f) noexcept {
  const base::cancellation_deferred until_it_is_closed;
  if (of(f).used_after_fork()) return 0;
  std::unique_ptr<event_queue> self(&of(f));
  if (!self->bound_.any()) return 0;
  GAUDI_INFO(EQ, "event queue stays open: close what is bound to it first\n");
  static_cast<void>(self.release());
  return -FI_EBUSY;
}

int event_queue::control(fid_t f, int command, void* arg) noexcept {
  event_queue& self = of(f);
  if (self.used_after_fork()) return -FI_EOPBADSTATE;
  switch (command) {
    case FI_GETWAIT:
      if (self.wait_obj_ != FI_WAIT_FD) return -FI_ENODATA;
      *static_cast<int*>(arg) = self.wait_.set->fd();
      return 0;
    case FI_GETWAITOBJ:
      *static_cast<fi_wait_obj*>(arg) = self.wait_obj_;
      return 0;
    case control_try_wait:
      return self.try_wait();
    default:
      return -FI_ENOSYS;
  }
}

int event_queue::try_wait() noexcept {
  const base::cancellation_deferred until_it_is_known;
  const base::scoped_lock lock(mutex_);
  if (!items_.empty() || overrun_) return -FI_EAGAIN;
  return core_ ? core_->try_wait() : 0;
}

base::result<fid_eq*> event_queue::attach(fid_fabric* core_fabric,
                                          event_source::opener open_source) {
  const base::scoped_lock lock(mutex_);
  if (core_) {
    if (core_->fabric() == core_fabric) return core_->queue();
    return base::error{-FI_EINVAL};
  }
  auto opened = open_source(core_fabric, capacity_, wait_.set.has_value());
  if (!opened) return opened.failure();
  if (wait_.set) {
    if (const int ret = wait_.set->add((*opened)->wait_fd())) return base::error{ret};
  }
  core_ = *std::move(opened);
  return core_->queue();
}

int event_queue::post(std::uint32_t event, std::span<const std::byte> entry) noexcept {
  try {
    return append({.event = event, .entry = {entry.begin(), entry.end()}});
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

int event_queue::offer(std::uint32_t event, std::span<const std::byte> entry) noexcept {
  const base::cancellation_deferred until_it_is_there;
  try {
    item it{.event = event, .entry = {entry.begin(), entry.end()}};
    const base::scoped_lock lock(mutex_);
    const bool is_full = overrun_ || items_.size() >= capacity_;
    return is_full ? -FI_EAGAIN : insert(std::move(it));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

int event_queue::post(std::uint32_t event, const fi_eq_entry& entry,
                      reserved_events& reserved) noexcept {
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  item it = std::move(reserved.items_.front());
  it.event = event;
  it.entry.assign(bytes.begin(), bytes.end());
  return append(std::move(it), reserved);
}

int event_queue::post_error(const fi_eq_err_entry& entry, reserved_events& reserved) noexcept {
  fi_eq_err_entry own = entry;
  own.err_data = nullptr;
  own.err_data_size = 0;
  return append({.entry = {}, .error = own}, reserved);
}

event_queue::reserved_events::reserved_events(std::size_t count) : items_(count) {
  for (item& it : items_) it.entry.reserve(sizeof(fi_eq_entry));
}

bool event_queue::has_room() noexcept {
  if (overrun_) return false;
  if (items_.size() != capacity_) return true;
  overrun_ = true;
  GAUDI_WARN(EQ,
             "event queue overrun: its %zu entries are full and an event is lost; open it larger "
             "or read it more often\n",
             capacity_);
  return false;
}

int event_queue::append(item&& it) noexcept {
  const base::cancellation_deferred until_it_is_there;
  const base::scoped_lock lock(mutex_);
  return has_room() ? insert(std::move(it)) : -FI_EOVERRUN;
}

int event_queue::insert(item&& it) noexcept {
  try {
    items_.push_back(std::move(it));
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
  mark_readable();
  return 0;
}

int event_queue::append(item&& it, reserved_events& reserved) noexcept {
  const base::cancellation_deferred until_it_is_there;
  const base::scoped_lock lock(mutex_);
  if (!has_room()) return -FI_EOVERRUN;
  reserved.items_.front() = std::move(it);
  items_.splice(items_.end(), reserved.items_, reserved.items_.begin());
  mark_readable();
  return 0;
}

void event_queue::pop() noexcept {
  items_.pop_front();
  if (items_.empty() && !overrun_) clear_readable();
}

void event_queue::mark_readable() noexcept {
  if (wait_.filled) ::eventfd_write(wait_.filled.get(), 1);
}

void event_queue::clear_readable() noexcept {
  eventfd_t count = 0;
  if (wait_.filled) ::eventfd_read(wait_.filled.get(), &count);
}

ssize_t event_queue::read(fid_eq* eq, std::uint32_t* event, void* buf, std::size_t len,
                          std::uint64_t flags) noexcept {
  event_queue& self = of(eq);
  if (self.used_after_fork()) return -FI_EOPBADSTATE;
  return self.read_next(event, buf, len, flags);
}

ssize_t event_queue::read_next(std::uint32_t* event, void* buf, std::size_t len,
                               std::uint64_t flags) noexcept {
  const base::cancellation_deferred until_it_is_read;
  const base::scoped_lock lock(mutex_);
  if (items_.empty()) {
    if (overrun_) return -FI_EAVAIL;
    return core_ ? core_->read(event, buf, len, flags) : -FI_EAGAIN;
  }
  const item& front = items_.front();
  if (is_error(front.error)) return -FI_EAVAIL;
  const std::size_t size = front.entry.size();
  if (len < size) return -FI_ETOOSMALL;
  *event = front.event;
  std::memcpy(buf, front.entry.data(), size);
  if (!(flags & FI_PEEK)) pop();
  return static_cast<ssize_t>(size);
}

ssize_t event_queue::read_error(fid_eq* eq, fi_eq_err_entry* buf, std::uint64_t flags) noexcept {
  event_queue& self = of(eq);
  if (self.used_after_fork()) return -FI_EOPBADSTATE;
  const base::cancellation_deferred until_it_is_read;
  const base::scoped_lock lock(self.mutex_);
  if (self.items_.empty()) {
    if (self.overrun_) return self.tell_of_overrun(*buf);
    return self.core_ ? self.core_->read_error(buf, flags) : -FI_EAGAIN;
  }
  if (!is_error(self.items_.front().error)) return -FI_EAGAIN;
  *buf = self.items_.front().error;
  if (!(flags & FI_PEEK)) self.pop();
  return sizeof(*buf);
}

// The last that such a queue has to say, and it says it for ever.
ssize_t event_queue::tell_of_overrun(fi_eq_err_entry& entry) noexcept {
  entry = {.fid = &fid,
           .context = nullptr,
           .data = 0,
           .err = FI_EOVERRUN,
           .prov_errno = FI_EOVERRUN,
           .err_data = nullptr,
           .err_data_size = 0};
  return sizeof entry;
}

ssize_t event_queue::write(fid_eq* eq, std::uint32_t event, const void* buf, std::size_t len,
                           std::uint64_t) noexcept {
  event_queue& self = of(eq);
  if (self.used_after_fork()) return -FI_EOPBADSTATE;
  if (!(self.flags_ & FI_WRITE)) return -FI_EINVAL;
  const int ret = self.post(event, std::span(static_cast<const std::byte*>(buf), len));
  return ret ? ret : static_cast<ssize_t>(len);
}

ssize_t event_queue::wait_and_read(fid_eq* eq, std::uint32_t* event, void* buf, std::size_t len,
                                   int timeout, std::uint64_t flags) {
  event_queue& self = of(eq);
  if (self.wait_obj_ == FI_WAIT_NONE) return -FI_EINVAL;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
  for (;;) {
    const ssize_t ret = read(eq, event, buf, len, flags);
    if (ret != -FI_EAGAIN) return ret;
    // Another reader may have been faster, so the time that is left is what counts.
    int left = -1;
    if (timeout >= 0) {
      const auto rest = deadline - std::chrono::steady_clock::now();
      left = static_cast<int>(
          std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(rest).count()));
    }
    if (self.try_wait() == 0 && !self.wait_.set->wait(left)) return -FI_EAGAIN;
  }
}

const char* event_queue::error_text(fid_eq*, int prov_errno, const void*, char* buf,
                                    std::size_t len) noexcept {
  const char* text = fi_strerror(prov_errno);
  if (!buf || len == 0) return text;
  std::snprintf(buf, len, "%s", text);
  return buf;
}

}  // namespace gaudi::fi
