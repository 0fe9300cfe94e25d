// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "outstanding_reader.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>

#include "page_reader.hpp"
#include "processes.hpp"

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::record_kind;

// A record is written in less than a microsecond: after that its process was stopped or killed.
constexpr int max_copies_of_record = 1000;

/// None: it is being written for ever.
std::optional<record> record_at(const mapped_page& page, std::size_t offset) {
  for (int i = 0; i < max_copies_of_record; ++i) {
    const auto before = static_cast<std::uint32_t>(page.word(offset));
    record r{};
    page.copy(offset, std::as_writable_bytes(std::span(&r, 1)));
    if (before % 2 == 0 && static_cast<std::uint32_t>(page.word(offset)) == before) return r;
    ::sched_yield();
  }
  return std::nullopt;
}

std::string reason_against_page(const outstanding::page_header& h, std::size_t size) {
  if (h.magic != outstanding::magic) return "not a page of outstanding operations";
  if (h.version != outstanding::version)
    return fmt::format("the page has layout version {}, this tool knows {}", h.version,
                       outstanding::version);
  const bool is_sane = h.page_size <= size && h.header_size >= sizeof h &&
                       h.header_size <= h.page_size && h.header_size % 8 == 0 &&
                       h.record_size >= sizeof(record) && h.record_size % 8 == 0 &&
                       h.record_count <= (h.page_size - h.header_size) / h.record_size;
  return is_sane ? "" : "the page's sizes contradict each other";
}

void add_record(outstanding_view& to, const record& r) {
  // Taken and not written yet, or kept for what comes next. It would be as old as the machine.
  if (r.since == 0) return;
  if (r.kind == record_kind::operation) to.operations.push_back(r);
  if (r.kind == record_kind::connection) to.connections.push_back(r);
  if (r.kind == record_kind::endpoint) to.endpoints.push_back(r);
  if (r.kind == record_kind::call) to.calls.push_back(r);
}

std::string printable(const std::array<char, 16>& raw) {
  std::string text(raw.data(), ::strnlen(raw.data(), raw.size()));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace

outstanding_result read_outstanding(int fd, int pid) try {
  const mapped_page page(fd, sizeof(outstanding::page_header));
  outstanding::page_header h{};
  page.copy(0, std::as_writable_bytes(std::span(&h, 1)));
  if (std::string why = reason_against_page(h, page.size()); !why.empty())
    return {{}, std::move(why)};
  if (h.pid != pid) return {{}, "the page is another process's"};
  outstanding_view view;
  view.pid = pid;
  view.command = printable(h.command);
  for (std::size_t i = 0; i < h.record_count; ++i) {
    const auto r = record_at(page, h.header_size + i * h.record_size);
    if (r)
      add_record(view, *r);
    else
      ++view.unread;
  }
  for (auto* list : {&view.operations, &view.connections, &view.calls})
    std::stable_sort(list->begin(), list->end(),
                     [](const record& a, const record& b) { return a.since < b.since; });
  return {{std::move(view)}, ""};
} catch (const std::runtime_error& error) {
  return {{}, error.what()};
}

outstanding_result find_outstanding(pid_t pid, const std::string& proc) {
  const std::string folder = fmt::format("{}/{}", proc, pid);
  const auto who = identity_of(folder);
  if (!who) return {{}, fmt::format("no process {}", pid)};
  std::string why;
  for (const auto& fd : open_pages(folder, outstanding::page_name, why)) {
    outstanding_result one = read_outstanding(fd.get(), who->innermost_pid);
    if (one.found.empty()) {
      why = "what it waits for cannot be read: " + one.error;
      continue;
    }
    one.found[0].pid = pid;
    one.found[0].state = who->state;
    return one;
  }
  return {{}, fmt::format("process {}: {}", pid, why)};
}

std::vector<outstanding_view> find_all_outstanding(const std::string& proc) {
  std::vector<outstanding_view> all;
  for (const int pid : all_pids(proc)) {
    outstanding_result one = find_outstanding(pid, proc);
    std::move(one.found.begin(), one.found.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace gaudi::top
