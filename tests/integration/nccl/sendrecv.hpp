// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The plugin's protocol of tagged messages: nccl_ofi_sendrecv.cpp of aws-ofi-nccl 1.21.1.
#pragma once

#include "plugin.hpp"

namespace gaudi::test::nccl {

/// An endpoint of nccl_net_ofi_sendrecv_ep_t, with one communicator in each direction to one peer.
class sendrecv {
 public:
  explicit sendrecv(fi_info* info);

  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  /// The handle that NCCL carries to the peer, of the connection manager's endpoint.
  [[nodiscard]] endpoint_name handle() const { return manager_.name(); }
  /// connect() to the peer and accept() of it.
  void connect(const endpoint_name& handle_of_peer);

  /// regMr(): of the buffers that are sent and received.
  [[nodiscard]] fid_ptr<fid_mr> register_buffer(std::span<std::byte> range, bool device);
  void send(std::span<std::byte> from, fid_mr* mr, request& r);
  void receive(std::span<std::byte> to, fid_mr* mr, request& r);
  /// flush() of the receiving communicator.
  void flush(std::span<std::byte> received, fid_mr* mr);

  void progress();
  void wait(request& r);

 private:
  struct connect_message {
    endpoint_name name;
    std::uint64_t tag;
  };
  static constexpr std::uint64_t tag_of_listener = 1;

  fid_ptr<fid_fabric> fabric_;
  fid_ptr<fid_domain> domain_;
  fid_ptr<fid_cq> queue_;
  // Registered with the domain, so they go after the endpoints.
  std::vector<std::byte> flush_buffer_;
  fid_ptr<fid_mr> flush_mr_;
  std::array<connect_message, 2> messages_{};  // one to send, one to receive
  fid_ptr<fid_mr> messages_mr_;
  endpoint endpoint_;
  endpoint manager_;
  fi_addr_t self_ = FI_ADDR_NOTAVAIL;
  fi_addr_t peer_ = FI_ADDR_NOTAVAIL;
  request connect_received_;
};

}  // namespace gaudi::test::nccl
