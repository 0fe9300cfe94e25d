// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/poll_set.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/rdm/cntr.hpp"
#include "fi/rdm/cq.hpp"

namespace gaudi::fi {
namespace {

int close_poll_set(fid_t f) noexcept {
  poll_set& self = poll_set::of(f);
  if (!self.parent().used_after_fork()) delete &self;
  return 0;
}

int poll(fid_poll* p, void** contexts, int count) noexcept {
  return guarded_int(
      [&] { return contexts && count > 0 ? poll_set::of(p).poll(contexts, count) : -FI_EINVAL; });
}

int add(fid_poll* p, fid* member, std::uint64_t flags) noexcept {
  return guarded_int([&] { return flags ? -FI_EBADFLAGS : poll_set::of(p).add(*member); });
}

int remove(fid_poll* p, fid* member, std::uint64_t flags) noexcept {
  return guarded_int([&] { return flags ? -FI_EBADFLAGS : poll_set::of(p).remove(*member); });
}

fi_ops poll_set_fid_ops = only_close<close_poll_set>();
fi_ops_poll poll_ops{
    .size = sizeof(fi_ops_poll), .poll = poll, .poll_add = add, .poll_del = remove};

// The domain's lock is held, and goes by the member's name here.
bool is_empty(cq& queue) noexcept {
  queue.parent().lock().assert_held();
  return queue.entries().empty();
}

std::uint64_t counted_by(cntr& counter) noexcept {
  counter.parent().lock().assert_held();
  return counter.counter().value() + counter.counter().errors();
}

/// What the member is, if it is of that domain; it stays open for the reference.
template <class Object>
child_count::ref hold_of(fid& member, const domain& parent) {
  Object& object = Object::of(&member);
  return &object.parent() == &parent ? child_count::ref(object.bound()) : child_count::ref();
}

}  // namespace

poll_set::poll_set(domain& parent)
    : fid_poll{.fid = {.fclass = FI_CLASS_POLL, .context = nullptr, .ops = &poll_set_fid_ops},
               .ops = &poll_ops},
      parent_(parent),
      hold_(parent.open_children()) {}

bool poll_set::has_news(member& m) {
  if (m.object->fclass == FI_CLASS_CQ) return !is_empty(cq::of(m.object));
  const std::uint64_t now = counted_by(cntr::of(m.object));
  return std::exchange(m.counted, now) != now;
}

int poll_set::poll(void** contexts, int count) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(parent().lock());
  parent().endpoints().poll_for_all();
  int told = 0;
  for (member& m : members_) {
    if (told == count) break;
    if (has_news(m)) contexts[told++] = m.object->context;
  }
  return told;
}

int poll_set::add(struct fid& object) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const bool is_queue = object.fclass == FI_CLASS_CQ;
  if (!is_queue && object.fclass != FI_CLASS_CNTR) return -FI_EINVAL;
  const base::scoped_domain_lock lock(parent().lock());
  const bool is_known = std::any_of(members_.begin(), members_.end(),
                                    [&](const member& m) { return m.object == &object; });
  auto hold = is_queue ? hold_of<cq>(object, parent_) : hold_of<cntr>(object, parent_);
  if (is_known || !hold) return -FI_EINVAL;
  const std::uint64_t counted = is_queue ? 0 : counted_by(cntr::of(&object));
  members_.push_back({&object, std::move(hold), counted});
  return 0;
}

int poll_set::remove(const struct fid& object) {
  if (parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(parent().lock());
  return std::erase_if(members_, [&](const member& m) { return m.object == &object; }) != 0
             ? 0
             : -FI_EINVAL;
}

int poll_open(fid_domain* d, fi_poll_attr* attr, fid_poll** out) noexcept {
  return guarded_int([&]() -> int {
    if (!out || (attr && attr->flags)) return -FI_EINVAL;
    domain& parent = domain::of(d);
    if (parent.used_after_fork()) return -FI_EOPBADSTATE;
    *out = new poll_set(parent);
    return 0;
  });
}

}  // namespace gaudi::fi
