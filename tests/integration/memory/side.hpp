// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext_gaudi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "traffic.hpp"

namespace gaudi::test {

constexpr std::size_t longest = 100'000;  // a rendezvous
constexpr std::chrono::seconds hang{20};

/// One side. Nothing of C++ that allocates: an exception of the program's own would be no news.
struct side {
  /// Where one message came to, with many in a buffer.
  struct place {
    std::size_t at = 0;
    std::size_t length = 0;
  };

  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* queue = nullptr;
  fid_cntr* counter = nullptr;
  fid_av* addresses = nullptr;
  fid_ep* shared = nullptr;  // receive context of the endpoints
  fid_ep* endpoint = nullptr;
  fid_ep* second = nullptr;  // endpoint
  fid_mr* region = nullptr;
  fi_gaudi_ops* gaudi = nullptr;
  std::uint64_t device_memory = 0;
  std::uint64_t pool = 0;  // that it is a piece of
  std::array<std::byte, longest> host{};
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  fi_addr_t second_peer = FI_ADDR_NOTAVAIL;
  int completions = 0;
  std::array<place, 16> places{};  // of the completions
  int failed = 0;                  // positive FI_E*

  [[nodiscard]] std::byte* memory() {
    return device_memory ? reinterpret_cast<std::byte*>(device_memory) : host.data();
  }
};

inline side a;
inline side b;
inline bool automatic = false;  // FI_PROGRESS_AUTO

/// What fi_getinfo offers for those capabilities, FI_HMEM among them or not. The caller frees it.
int find(std::uint64_t caps, fi_info** info);

/// Fabric, domain, queue and address vector.
int open_domain(side& s, fi_info* info);
/// An endpoint that is bound to the queue and addresses, not enabled.
int open_endpoint(side& s, fi_info* info, fid_ep** endpoint);
/// Registers all of its memory.
int register_memory(side& s);
/// Both at once, as each waits for the other's goodbye.
void close_both();

/// `*peer`: the address of `endpoint` for `to`.
int introduce(side& to, fid_ep* endpoint, fi_addr_t* peer);

/// 0, or the first error there is; -FI_ETIMEDOUT: it hangs. Waits for as many completions of each
/// side, from here on.
int wait_for(int of_a, int of_b);

/// Repeats a call that starts an operation while it gives -FI_EAGAIN.
int post_again(ssize_t (*call)(void*), void* of);
template <class Call>
int post(Call call) {
  return post_again([](void* of) -> ssize_t { return (*static_cast<Call*>(of))(); }, &call);
}

int copy_to_device(side& s, std::size_t length);
int copy_from_device(side& s, std::size_t length);
/// What a message of that seed has.
std::byte byte_of(unsigned seed, std::size_t i) noexcept;
int fill(side& s, unsigned seed, std::size_t length);
/// 1: it has other bytes.
int check(side& s, unsigned seed, std::size_t length);

}  // namespace gaudi::test
