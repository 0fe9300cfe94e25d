// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Linked into tests and preloaded into the programs that tests start: /proc/kallsyms has one line.
//
// Each process that opens libfabric reads the kernel's symbols until it has found two, one of which
// no kernel of upstream's has (verbs_osd.h, vrb_os_mem_support(), of 1.17 and 2.1): 122,000 lines
// and 0.15 s, which was half of what the tests took. They are told what Linux 5.12 and later answer
// with RDMA in it. tests/vm looks at a real kernel's symbols.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace {

using open_call = std::FILE* (*)(const char*, const char*);

std::FILE* open(const char* path, const char* mode, const char* name) {
  static std::array symbols = std::to_array("0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n");
  if (std::strcmp(path, "/proc/kallsyms") == 0)
    return ::fmemopen(symbols.data(), symbols.size() - 1, "r");
  const auto next = reinterpret_cast<open_call>(::dlsym(RTLD_NEXT, name));
  return next(path, mode);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] std::FILE* fopen(const char* path, const char* mode) {
  return open(path, mode, "fopen");
}

[[gnu::visibility("default")]] std::FILE* fopen64(const char* path, const char* mode) {
  return open(path, mode, "fopen64");
}
}
