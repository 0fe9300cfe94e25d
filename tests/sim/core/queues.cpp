// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Queues of completions and of connection events.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "sim/core/objects.hpp"

namespace gaudi::sim {
namespace {

int close_completions(fid* f) {
  auto& q = of_fid<core_completions, fid_cq>(f);
  q.at->net().queues().erase(q.number);
  std::erase(q.at->completions(), &q);
  q.at->closed();
  delete &q;
  return 0;
}

ssize_t read_completions(fid_cq* f, void* into, std::size_t most) {
  auto& q = down<core_completions>(f);
  ++q.reads;
  q.at->look();
  if (q.entries.empty() || !q.at->is_alive()) return -FI_EAGAIN;
  if (q.entries.front().error) return -FI_EAVAIL;
  auto* out = static_cast<std::byte*>(into);
  std::size_t count = 0;
  for (; count < most && !q.entries.empty() && !q.entries.front().error; ++count) {
    // An entry of a shorter format is the beginning of this one.
    std::memcpy(out + count * q.entry_bytes, &q.entries.front().done, q.entry_bytes);
    q.entries.pop_front();
  }
  return static_cast<ssize_t>(count);
}

ssize_t read_error(fid_cq* f, fi_cq_err_entry* into, std::uint64_t) {
  auto& q = down<core_completions>(f);
  if (q.entries.empty() || !q.entries.front().error) return -FI_EAGAIN;
  const auto& e = q.entries.front();
  into->op_context = e.done.op_context;
  into->flags = e.done.flags;
  into->err = e.error;
  into->prov_errno = e.provider_error;
  q.entries.pop_front();
  return 1;
}

int close_events(fid* f) {
  auto& q = of_fid<core_events, fid_eq>(f);
  std::erase(q.at->events(), &q);
  // Requests that nobody has read are answered with no.
  for (auto& e : q.entries) {
    if (e.info) refuse_request(static_cast<core_request&>(*e.info->handle), {});
    fi_freeinfo(e.info);
  }
  q.at->closed();
  delete &q;
  return 0;
}

ssize_t read_event(fid_eq* f, std::uint32_t* what, void* into, std::size_t length, std::uint64_t) {
  auto& q = down<core_events>(f);
  ++q.reads;
  q.at->look();
  if (q.entries.empty() || !q.at->is_alive()) return -FI_EAGAIN;
  auto& e = q.entries.front();
  if (e.what == 0) return -FI_EAVAIL;
  *what = e.what;
  auto& entry = *static_cast<fi_eq_cm_entry*>(into);
  entry.fid = e.about;
  entry.info = e.info;
  const std::size_t said = std::min(e.said.size(), length - sizeof entry);
  if (said != 0) std::memcpy(static_cast<std::byte*>(into) + sizeof entry, e.said.data(), said);
  q.entries.pop_front();
  return static_cast<ssize_t>(sizeof entry + said);
}

ssize_t read_event_error(fid_eq* f, fi_eq_err_entry* into, std::uint64_t) {
  auto& q = down<core_events>(f);
  if (q.entries.empty() || q.entries.front().what != 0) return -FI_EAGAIN;
  const auto& e = q.entries.front();
  into->fid = e.about;
  into->err = e.error;
  into->prov_errno = 0;
  const std::size_t said = std::min(e.said.size(), into->err_data_size);
  if (said != 0) std::memcpy(into->err_data, e.said.data(), said);
  into->err_data_size = said;
  if (said == 0) into->err_data = nullptr;
  q.entries.pop_front();
  return sizeof *into;
}

// To sleep on: nobody does, as the host knows which are readable (host::readable).
int control_queue(fid* f, int command, void* into) {
  if (command != FI_GETWAIT) return -FI_ENOSYS;
  *static_cast<int*>(into) = f->fclass == FI_CLASS_CQ
                                 ? of_fid<core_completions, fid_cq>(f).descriptor
                                 : of_fid<core_events, fid_eq>(f).descriptor;
  return 0;
}

}  // namespace

int try_wait(fid_fabric* fabric, fid** queues, int count) {
  for (fid* f : std::span(queues, static_cast<std::size_t>(count))) {
    if (f->fclass != FI_CLASS_CQ) continue;
    auto& q = of_fid<core_completions, fid_cq>(f);
    if (!q.entries.empty()) return -FI_EAGAIN;
    q.has_rung = false;
    q.is_armed = true;
  }
  return down<core_fabric>(fabric).at->is_readable() ? -FI_EAGAIN : 0;
}

std::vector<int> host::readable() const {
  std::vector<int> found;
  const bool any = !owed_.empty();  // of which queue the next look tells
  for (const core_completions* queue : completions_)
    if (any || (net_.how().rdma ? queue->has_rung : !queue->entries.empty()))
      found.push_back(queue->descriptor);
  for (const core_events* queue : events_)
    if (any || !queue->entries.empty()) found.push_back(queue->descriptor);
  return found;
}

int open_completions(fid_domain* domain, fi_cq_attr* attr, fid_cq** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_completions, .control = control_queue};
  static fi_ops_cq cq_ops{
      .size = sizeof(fi_ops_cq), .read = read_completions, .readerr = read_error};
  host& at = *down<core_domain>(domain).at;
  auto* q = new core_completions{};
  q->fid = {.fclass = FI_CLASS_CQ, .context = context, .ops = &ops};
  q->ops = &cq_ops;
  q->at = &at;
  q->descriptor = at.new_descriptor();
  q->entry_bytes =
      attr->format == FI_CQ_FORMAT_CONTEXT ? sizeof(fi_cq_entry) : sizeof(fi_cq_msg_entry);
  q->number = at.net().next_number();
  q->room = std::min<std::size_t>(attr->size, at.net().how().completions);
  at.net().queues().emplace(q->number, q);
  at.completions().push_back(q);
  at.opened();
  *out = q;
  return 0;
}

int open_events(fid_fabric* fabric, fi_eq_attr*, fid_eq** out, void* context) {
  static fi_ops ops{.size = sizeof(fi_ops), .close = close_events, .control = control_queue};
  static fi_ops_eq eq_ops{
      .size = sizeof(fi_ops_eq), .read = read_event, .readerr = read_event_error};
  auto* q = new core_events{};
  q->fid = {.fclass = FI_CLASS_EQ, .context = context, .ops = &ops};
  q->ops = &eq_ops;
  q->at = down<core_fabric>(fabric).at;
  q->descriptor = q->at->new_descriptor();
  q->at->events().push_back(q);
  q->at->opened();
  *out = q;
  return 0;
}

}  // namespace gaudi::sim
