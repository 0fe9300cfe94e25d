// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/host_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace gaudi::copy {

base::result<host_pages> host_pages::allocate(std::size_t len) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t size = (len + page - 1) / page * page;
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return base::error{-errno};
  host_pages pages(static_cast<std::byte*>(data), size);
  if (madvise(data, size, MADV_DONTFORK) != 0) return base::error{-errno};
  return pages;
}

host_pages::host_pages(host_pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), len_(other.len_) {}

host_pages::~host_pages() {
  if (data_ != nullptr) munmap(data_, len_);
}

}  // namespace gaudi::copy
