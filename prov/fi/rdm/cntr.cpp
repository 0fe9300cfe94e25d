// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/cntr.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {
namespace {

std::uint64_t read(fid_cntr* c) noexcept {
  return cntr::of(c).read(false);
}
std::uint64_t read_errors(fid_cntr* c) noexcept {
  return cntr::of(c).read(true);
}

template <void (base::counter::*change)(std::uint64_t)>
int change_by(fid_cntr* c, std::uint64_t n) noexcept {
  cntr& self = cntr::of(c);
  if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(self.parent().lock());
  (self.counter().*change)(n);
  return 0;
}

int wait(fid_cntr* c, std::uint64_t threshold, int timeout) {
  return static_cast<int>(
      guarded_sleeping([&]() -> ssize_t { return cntr::of(c).wait(threshold, timeout); }));
}

int close_counter(fid_t f) noexcept {
  cntr& self = cntr::of(f);
  if (self.parent().used_after_fork()) return 0;
  if (self.bound().any()) {
    GAUDI_INFO(CNTR, "counter stays open: close what is bound to it first\n");
    return -FI_EBUSY;
  }
  delete &self;
  return 0;
}

int control_counter(fid_t f, int command, void* arg) noexcept {
  return guarded_int([&] { return cntr::of(f).control(command, arg); });
}

fi_ops make_counter_fid_ops() noexcept {
  fi_ops ops = only_close<close_counter>();
  ops.control = control_counter;
  return ops;
}
fi_ops cntr_fid_ops = make_counter_fid_ops();
padded<fi_ops_cntr> cntr_ops{{.size = sizeof(fi_ops_cntr),
                              .read = read,
                              .readerr = read_errors,
                              .add = change_by<&base::counter::add>,
                              .set = change_by<&base::counter::set>,
                              .wait = wait,
                              .adderr = change_by<&base::counter::add_errors>,
                              .seterr = change_by<&base::counter::set_errors>}};

}  // namespace

cntr::cntr(domain& parent, fi_wait_obj kind, std::unique_ptr<wait_object> object,
           void* user_context)
    : fid_cntr{.fid = {.fclass = FI_CLASS_CNTR, .context = user_context, .ops = &cntr_fid_ops},
               .ops = &cntr_ops},
      parent_(parent),
      hold_(parent.open_children()),
      kind_(kind),
      object_(std::move(object)),
      counter_(object_ ? &object_->waker() : nullptr) {}

std::uint64_t cntr::read(bool errors) {
  // There is no way to say more than the number as it was at the fork.
  if (parent().used_after_fork()) return errors ? counter_.errors() : counter_.value();
  const base::scoped_domain_lock lock(parent().lock());
  parent().endpoints().poll_for_all();
  return errors ? counter_.errors() : counter_.value();
}

int cntr::wait(std::uint64_t threshold, int timeout) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const std::uint64_t errors_before = read(true);
  const auto verdict = [&] {
    if (counter_.value() >= threshold) return 0;
    return counter_.errors() != errors_before ? -FI_EAVAIL : -FI_EAGAIN;
  };
  sleeper pause(parent_, object_.get(), timeout);
  for (;;) {
    {
      const base::scoped_domain_lock lock(parent().lock());
      parent().endpoints().poll_for_all();
      if (const int ret = verdict(); ret != -FI_EAGAIN) return ret;
    }
    if (pause.timed_out()) return -FI_ETIMEDOUT;
    pause.spin_or_block([&] { return verdict() != -FI_EAGAIN; });
  }
}

int cntr::control(int command, void* arg) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  if (command != control_try_wait) return get_wait_object(object_.get(), kind_, command, arg);
  const base::scoped_domain_lock lock(parent().lock());
  // The application compares the counter before and after (fi_cntr(3)).
  if (object_) object_->waker().arm();
  return parent().try_wait();
}

int cntr_open(fid_domain* d, fi_cntr_attr* attr, fid_cntr** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!out) return -FI_EINVAL;
    const fi_cntr_attr wanted = attr ? *attr : fi_cntr_attr{};
    if (wanted.events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS;
    domain& parent = domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(parent.lock());
    auto object = wait_object::open(parent, wanted.wait_obj);
    if (!object) return object.code();
    *out = new cntr(parent, wanted.wait_obj, std::move(*object), context);
    return 0;
  });
}

}  // namespace gaudi::fi
