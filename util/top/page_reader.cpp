// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "page_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace gaudi::top {
namespace {

namespace counters = base::counters;

// Far above what any release has; a page that claims more is not read.
constexpr std::size_t max_page_size = 1 << 18;
constexpr std::size_t values_at = offsetof(counters::block, values);
// How often a page is copied that changes meanwhile. A change takes microseconds, so after that the
// process was stopped or killed in the middle of one.
constexpr int max_copies = 1000;

page_result refused(std::string why) {
  return {std::nullopt, std::move(why)};
}

/// The bytes up to the first zero. Anything that a terminal might obey is a question mark.
template <std::size_t Size>
std::string text_of(const std::array<char, Size>& raw) {
  std::string text(raw.data(), ::strnlen(raw.data(), Size));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

template <class T>
T object_at(std::span<const std::byte> bytes, std::size_t offset) {
  T object;
  std::memcpy(&object, bytes.data() + offset, sizeof object);
  return object;
}

std::string reason_against(const counters::page_header& h, std::size_t size) {
  if (h.magic != counters::magic) return "not a counters page";
  if (h.version == 0) return "the page is just being made";
  if (h.version != counters::version)
    return fmt::format("the page has layout version {}, this tool knows {}", h.version,
                       counters::version);
  const bool is_sane = h.page_size <= size && h.header_size >= sizeof h &&
                       h.header_size <= h.page_size && h.block_size > values_at &&
                       h.block_size % sizeof(std::uint64_t) == 0 &&
                       h.block_count <= (h.page_size - h.header_size) / h.block_size;
  return is_sane ? "" : "the page's sizes contradict each other";
}

subject subject_at(std::span<const std::byte> block) {
  const auto head = object_at<counters::block_header>(block, 0);
  subject s{head.kind, head.number, text_of(head.name), text_of(head.detail), {}};
  const std::size_t count = std::min({std::size_t{head.value_count}, s.values.size(),
                                      (block.size() - values_at) / sizeof(std::uint64_t)});
  if (count > 0)
    std::memcpy(s.values.data(), block.data() + values_at, count * sizeof(s.values[0]));
  return s;
}

/// Open ones and the sum of those that were closed are one subject, whose counters only grow.
void add(std::vector<subject>& to, subject s) {
  const auto known =
      std::find_if(to.begin(), to.end(), [&](const subject& other) { return s.is_same(other); });
  if (known == to.end()) {
    to.push_back(std::move(s));
    return;
  }
  for (std::size_t i = 0; i < s.values.size(); ++i) known->values[i] += s.values[i];
}

/// Whole, in their order; false: a block came or went meanwhile.
bool copy_all(const mapped_page& from, std::vector<std::byte>& to) {
  constexpr std::size_t changes_at = offsetof(counters::page_header, changes);
  const std::uint64_t before = from.word(changes_at);
  from.copy(0, to);
  return before % 2 == 0 && from.word(changes_at) == before;
}

}  // namespace

page_result parse_page(std::span<const std::byte> copy) {
  if (copy.size() < sizeof(counters::page_header)) return refused("shorter than a page's header");
  const auto h = object_at<counters::page_header>(copy, 0);
  if (std::string why = reason_against(h, copy.size()); !why.empty())
    return refused(std::move(why));

  page p;
  p.pid = h.pid;
  p.start_time = h.start_time;
  p.command = text_of(h.command);
  p.release = text_of(h.release);
  p.unseen = h.unseen;
  p.is_changing = h.changes % 2 != 0;
  for (std::size_t i = 0; i < h.block_count; ++i) {
    subject s = subject_at(copy.subspan(h.header_size + i * h.block_size, h.block_size));
    // Kinds that later releases may add are not for this one to show.
    if (!counters::values_of(s.kind).empty()) add(p.subjects, std::move(s));
  }
  return {std::move(p), ""};
}

page_result read_page(int fd) try {
  const mapped_page mapped(fd, sizeof(counters::page_header));
  std::vector<std::byte> copy(mapped.size());
  bool is_whole = copy_all(mapped, copy);
  for (int i = 1; i < max_copies && !is_whole; ++i) {
    ::sched_yield();
    is_whole = copy_all(mapped, copy);
  }
  page_result result = parse_page(copy);
  if (result.found) result.found->is_changing = !is_whole;
  return result;
} catch (const std::runtime_error& error) {
  return refused(error.what());
}

// Whether it can be mapped without fear: nobody shrinks it.
mapped_page::mapped_page(int fd, std::size_t least) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) throw std::runtime_error(std::strerror(errno));
  if (const int seals = ::fcntl(fd, F_GET_SEALS); seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw std::runtime_error("not a sealed memfd");
  size_ = static_cast<std::size_t>(facts.st_size);
  if (size_ < least || size_ > max_page_size || size_ % sizeof(std::uint64_t) != 0)
    throw std::runtime_error(fmt::format("a page of {} bytes", size_));
  void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED)
    throw std::runtime_error(fmt::format("failed to map the page: {}", std::strerror(errno)));
  at_ = at;
}

mapped_page::~mapped_page() {
  ::munmap(at_, size_);
}

std::uint64_t mapped_page::word(std::size_t offset) const {
  // An atomic_ref takes no constant before C++26, and the mapping cannot be written.
  auto& value = *reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(at_) + offset);
  return std::atomic_ref(value).load(std::memory_order_acquire);
}

void mapped_page::copy(std::size_t offset, std::span<std::byte> to) const {
  for (std::size_t at = 0; at < to.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t value = word(offset + at);
    std::memcpy(&to[at], &value, sizeof value);
  }
}

}  // namespace gaudi::top
