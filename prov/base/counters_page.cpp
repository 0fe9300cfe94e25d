// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/counters_page.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/counter_names.hpp"
#include "base/fork_generation.hpp"
#include "base/log.hpp"
#include "base/params.hpp"
#include "base/per_process.hpp"

namespace gaudi::base::counters {
namespace {

struct own_page : page {
  own_page() : page(params::get().counters) {}
};

}  // namespace

/// While it lives, readers that look will look again.
class page::change {
 public:
  explicit change(page& of) noexcept : changes_(of.header_->changes) {
    // Read and written in one instruction, behind which later writes stay on x86-64, the only
    // machines with Gaudis. (A fence would do anywhere, but ThreadSanitizer knows none.)
    changes_.fetch_add(1, std::memory_order_seq_cst);
  }
  ~change() {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  change(const change&) = delete;
  change& operator=(const change&) = delete;

 private:
  std::atomic_ref<std::uint64_t> changes_;
};

page& page::instance() {
  return per_process<own_page>::get();
}

bool are_published() {
  return page::instance().header() != nullptr;
}

page::page(bool published) : generation_(fork_generation()) {
  if (!published) return;
  if (const int ret = memory_.map(page_name, page_size); ret != 0) {
    GAUDI_INFO(CORE, "counters page unavailable, others cannot see this process's counters: %s\n",
               std::strerror(-ret));
    return;
  }
  header_ = new (memory_.at()) page_header{};
  blocks_ = new (static_cast<std::byte*>(memory_.at()) + header_size) block[block_count]{};
  describe();
}

void page::describe() noexcept {
  page_header& h = *header_;
  const process_identity own = identity_of_this_process();
  h.magic = magic;
  h.header_size = header_size;
  h.page_size = page_size;
  h.block_size = sizeof(block);
  h.block_count = block_count;
  h.pid = own.pid;
  h.start_time = own.start_time;
  h.command = own.command;
  h.release = own.release;
  // Last: a reader that sees it sees all of the above.
  std::atomic_ref(h.version).store(version, std::memory_order_release);
}

// The first of this kind; `same_name`: and closed, with the name, detail and number of that.
block* page::find(block_kind kind, const block* same_name) noexcept {
  const auto found = std::find_if(blocks_, blocks_ + block_count, [&](const block& b) {
    return b.head.kind == kind &&
           (!same_name ||
            (b.head.state == block_state::closed && b.head.number == same_name->head.number &&
             b.head.name == same_name->head.name && b.head.detail == same_name->head.detail));
  });
  return found == blocks_ + block_count ? nullptr : found;
}

block* page::take(const subject& about) noexcept {
  if (!header_) return nullptr;
  const base::scoped_lock lock(mutex_);
  block* const taken = find(block_kind::none, nullptr);
  const change changing(*this);
  if (!taken) {
    ++header_->unseen;
    return nullptr;
  }
  *taken = {};
  taken->head.kind = about.kind;
  taken->head.state = block_state::open;
  taken->head.value_count = static_cast<std::uint32_t>(value_count(about.kind));
  taken->head.number = about.number;
  copy_text(taken->head.name, about.name);
  copy_text(taken->head.detail, about.detail);
  return taken;
}

void page::give_back(block& done) noexcept {
  // The parent's, which still counts there.
  if (generation_ != current_fork_generation()) return;
  const base::scoped_lock lock(mutex_);
  const change changing(*this);
  for (const value_name& v : values_of(done.head.kind))
    if (v.kind == behaviour::level) done.values[v.place] = 0;
  block* const sum = find(done.head.kind, &done);
  if (!sum) {
    done.head.state = block_state::closed;
    return;
  }
  for (std::size_t i = 0; i < max_values; ++i) sum->values[i] += done.values[i];
  done.head.kind = block_kind::none;
}

block_owner::block_owner(const subject& about, page& in) : page_(in), block_(in.take(about)) {
  if (block_) return;
  unseen_ = std::make_unique<block>();
  block_ = unseen_.get();
}

block_owner::~block_owner() {
  if (!unseen_) page_.give_back(*block_);
}

}  // namespace gaudi::base::counters
