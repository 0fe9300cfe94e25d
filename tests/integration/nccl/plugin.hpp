// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What both protocols of the NCCL plugin of AWS have in common. Follows aws-ofi-nccl 1.21.1: the
// same calls in the same order with the same arguments; the functions are named at each step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../node.hpp"

namespace gaudi::test::nccl {

inline constexpr std::size_t page_size = 4096;

enum class protocol { sendrecv, rdma };

/// The entries of fi_getinfo that the plugin makes devices of, or none.
info_ptr choose(protocol p);

/// nccl_net_ofi_context: what a completion's context leads back to.
struct request {
  fi_context2 context{};
  bool done = false;
  std::size_t length = 0;
  std::uint64_t flags = 0;
  std::uint64_t data = 0;
};

using endpoint_name = std::array<char, 56>;  // MAX_EP_ADDR

fid_ptr<fid_fabric> open_fabric(const fi_info& info);
fid_ptr<fid_domain> open_domain(fid_fabric* fabric, fi_info* info);
fid_ptr<fid_cq> open_queue(fid_domain* domain, fi_cq_format format);
/// nccl_ofi_ofiutils_mr_regattr(), which every registration goes through.
fid_ptr<fid_mr> register_memory(fid_domain* domain, std::span<std::byte> range,
                                std::uint64_t access, bool device);

/// An endpoint and its vector; nccl_ofi_ofiutils_ep_release() ends them in this order.
class endpoint {
 public:
  /// nccl_ofi_ofiutils_av_create() and nccl_ofi_ofiutils_ep_create().
  endpoint(fi_info* info, fid_domain* domain, fid_cq* queue);

  [[nodiscard]] fid_ep* get() const { return ep_.get(); }
  [[nodiscard]] endpoint_name name() const;
  [[nodiscard]] fi_addr_t insert(const endpoint_name& peer) const;

 private:
  fid_ptr<fid_av> av_;
  fid_ptr<fid_ep> ep_;
};

/// Throws where the call gives anything but 0; `progress` runs as long as there is no room.
template <class Call, class Progress>
void post(const char* what, Call call, Progress progress) {
  ssize_t ret;
  while ((ret = call()) == -FI_EAGAIN) progress();
  must(ret, what);
}

/// Memory of the simulated Gaudi, as an allocator of the device's hands it out.
class device_memory {
 public:
  device_memory(fid_domain* domain, std::size_t size);
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory();

  [[nodiscard]] std::span<std::byte> range() const {
    return {reinterpret_cast<std::byte*>(address_), size_};
  }
  void put(const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> get(std::size_t size) const;

 private:
  fid_domain* domain_;
  const fi_gaudi_ops* ops_ = nullptr;
  std::uint64_t address_ = 0;
  std::size_t size_;
};

}  // namespace gaudi::test::nccl
