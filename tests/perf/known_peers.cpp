// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer costs of which an endpoint knows the address, and has sent nothing yet: memory of the
// heap per address of its address vector, once they have all been inserted.
//   perf_known_peers PROVIDER PEERS [LIMIT]   prints bytes per peer; ends with 1 above LIMIT
#include <malloc.h>
#include <netinet/in.h>

#include <cstdint>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;

/// Bytes that the heap has handed out, those of mappings of their own among them.
std::size_t in_use() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

sockaddr_in address_of(std::uint32_t number) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(5000);
  a.sin_addr.s_addr = htonl((10U << 24) + 1 + number);
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const int peers = argc < 3 ? 0 : std::atoi(argv[2]);
  if (peers < 1 || argc > 4) {
    std::fprintf(stderr, "usage: %s PROVIDER PEERS [LIMIT]\n", argv[0]);
    return 2;
  }
  gaudi::perf::rdm self(argv[1]);
  self.open_endpoint();
  if (self.info->addr_format != FI_SOCKADDR_IN && self.info->addr_format != FI_SOCKADDR) {
    std::fprintf(stderr, "%s has other addresses than IPv4\n", argv[1]);
    return 2;
  }
  std::vector<sockaddr_in> names;
  for (int i = 0; i < peers; ++i) names.push_back(address_of(static_cast<std::uint32_t>(i)));
  std::vector<fi_addr_t> all(names.size());

  const std::size_t before = in_use();
  const int inserted =
      fi_av_insert(self.av.get(), names.data(), names.size(), all.data(), 0, nullptr);
  must(inserted == peers ? 0 : -FI_EINVAL, "fi_av_insert");
  const double each = static_cast<double>(in_use() - before) / peers;
  std::printf("%.1f\n", each);
  if (argc < 4 || each <= std::atof(argv[3])) return 0;
  std::fprintf(stderr, "more than %s bytes per known peer\n", argv[3]);
  return 1;
}
