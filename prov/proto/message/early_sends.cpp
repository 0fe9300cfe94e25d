// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/message/early_sends.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>
#include <utility>

namespace gaudi::proto {
namespace {

// The caller has its buffer back at once.
void copy_of(const local_memory& memory, early_sends::message& m) {
  m.copied = std::make_unique<std::byte[]>(memory.length());
  memory.read(0, m.copied.get(), memory.length());
  m.memory = local_memory::of_host(m.copied.get(), memory.length());
}

bool is_all_host(const local_memory& memory) noexcept {
  for (std::size_t i = 0; i < memory.count(); ++i)
    if (!memory[i].is_host()) return false;
  return true;
}

}  // namespace

int early_sends::keep(peer& to, const local_memory& memory, const send_params& what) noexcept try {
  if (to.early >= most || (what.inject && !is_all_host(memory))) return -FI_EAGAIN;
  message m{.memory = memory, .what = what, .copied = nullptr};
  if (what.inject) copy_of(memory, m);
  made_for(to).waiting.push_back(std::move(m));
  ++to.early;
  return 0;
} catch (const std::bad_alloc&) {
  if (to.early == 0) forget(to);
  return -FI_ENOMEM;
}

bool early_sends::fail(peer& to, int error) noexcept {
  queue* const q = of(to);
  const bool any = to.early != 0;
  while (to.early != 0) end_oldest(*q, error);
  forget(to);
  return any;
}

void early_sends::fail_all(int error) noexcept {
  while (!queues_.empty()) fail(*queues_.front()->to, error);
}

bool early_sends::any_injected() const noexcept {
  const auto is_injected = [](const message& m) { return m.what.inject; };
  return std::any_of(queues_.begin(), queues_.end(), [&](const auto& q) {
    return std::any_of(q->waiting.begin(), q->waiting.end(), is_injected);
  });
}

early_sends::queue* early_sends::of(const peer& to) const noexcept {
  if (queues_.empty()) return nullptr;
  const auto found =
      std::find_if(queues_.begin(), queues_.end(), [&](const auto& q) { return q->to == &to; });
  return found == queues_.end() ? nullptr : found->get();
}

early_sends::queue& early_sends::made_for(peer& to) {
  if (queue* const there = of(to)) return *there;
  queues_.push_back(std::make_unique<queue>(queue{&to, {}}));
  return *queues_.back();
}

void early_sends::end_oldest(queue& q, int error) noexcept {
  const completion_spec completion = q.waiting.front().what.completion;
  drop_oldest(q);
  completion.end({.error = error});
}

void early_sends::drop_oldest(queue& q) noexcept {
  q.waiting.pop_front();
  --q.to->early;
}

void early_sends::forget(const peer& to) noexcept {
  std::erase_if(queues_, [&](const auto& q) { return q->to == &to; });
}

}  // namespace gaudi::proto
