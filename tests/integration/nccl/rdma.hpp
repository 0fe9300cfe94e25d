// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The plugin's protocol of RDMA writes: nccl_ofi_rdma.cpp of aws-ofi-nccl 1.21.1. A receiver writes
// where its buffer is into the sender's mailbox; the sender writes a stripe with immediate data on
// each rail, or, if short, sends it before it has looked into the mailbox (eager).
#pragma once

#include <deque>
#include <map>

#include "plugin.hpp"

namespace gaudi::test::nccl {

class rdma {
 public:
  static constexpr std::size_t rails = 2;
  static constexpr std::size_t max_eager = 8192;             // OFI_NCCL_EAGER_MAX_SIZE
  static constexpr std::size_t min_stripe = 2 * 128 * 1024;  // OFI_NCCL_MIN_STRIPE_SIZE a rail

  /// Both rails are domains on the first entry's NIC.
  explicit rdma(fi_info* info);
  ~rdma();
  rdma(const rdma&) = delete;
  rdma& operator=(const rdma&) = delete;

  [[nodiscard]] fid_domain* domain() const { return rails_[0].domain.get(); }

  /// What the connection manager's messages carry (nccl_ofi_rdma_connection_info_t).
  struct address {
    std::array<endpoint_name, rails> data;
    endpoint_name control;
    std::uint64_t mailbox;
    std::array<std::uint64_t, rails> mailbox_keys;
  };
  [[nodiscard]] address own_address() const;
  void connect(const address& peer);

  /// nccl_net_ofi_rdma_mr_handle_t: a registration on each rail.
  using handle = std::array<fid_ptr<fid_mr>, rails>;
  handle register_buffer(std::span<std::byte> range, bool device);

  /// Messages have the numbers 0, 1, ... in each direction, and are posted in that order.
  void receive(std::span<std::byte> to, const handle& mr);
  void send(std::span<std::byte> from, const handle& mr, bool eager);
  /// Until the message of this number is complete here; its length.
  std::size_t wait_received(unsigned number);
  void wait_sent();
  /// rdma_flush_req::post(), HAVE_GPU: of what was received, by each rail.
  void flush();
  /// rdma_send_close_req, and the peer's.
  void close();
  void progress();

 private:
  struct control_message {  // nccl_net_ofi_ctrl_msg_t
    std::uint64_t buffer;
    std::uint64_t length;
    std::array<std::uint64_t, rails> keys;
    std::uint32_t number_plus_one;  // 0: nothing has been written here
  };
  struct eager_header {  // nccl_ofi_eager_msg_header_t
    std::uint32_t offset;
    std::uint32_t number;
  };
  static constexpr unsigned slots = 64;       // NCCL_OFI_CTRL_MAILBOX_SIZE
  static constexpr unsigned rx_buffers = 32;  // OFI_NCCL_EAGER_RX_BUFFER_COUNT
  static constexpr std::size_t line = 64;     // NCCL_OFI_DEFAULT_CPU_CACHE_LINE_SIZE
  static constexpr std::size_t rx_size = sizeof(eager_header) + max_eager;

  struct rail {
    fid_ptr<fid_domain> domain;
    fid_ptr<fid_cq> queue;
    std::vector<fid_ptr<fid_mr>> regions;  // own buffers, in the order of enum own
    std::unique_ptr<endpoint> data;
    fi_addr_t self = FI_ADDR_NOTAVAIL;
    fi_addr_t peer = FI_ADDR_NOTAVAIL;
  };
  enum own { mailbox_in, mailbox_out, eager_rx, headers, flush_line, flush_target };

  struct rx_request : request {
    unsigned index = 0;
    std::size_t rail = 0;
    bool close = false;
  };
  struct incoming {
    std::span<std::byte> to;
    const handle* mr;
    unsigned segments = 0;
    std::size_t length = 0;
    bool complete = false;
  };

  void register_own(rail& r);
  void post_rx(rx_request& r, bool more);
  void progress_rail(rail& r);
  void handle_write(std::uint64_t data, std::size_t length);
  void handle_rx(rx_request& r, std::size_t length);
  void handle_close();
  void start_eager_copies();
  request& new_request();
  void wait(request& r);

  fid_ptr<fid_fabric> fabric_;
  std::vector<control_message> mailbox_;  // written by the peer
  std::vector<control_message> out_;      // written to the peer's
  std::vector<std::byte> rx_memory_;
  std::vector<eager_header> headers_;
  std::vector<std::byte> flush_memory_;  // a line for each rail
  std::array<rail, rails> rails_;
  std::unique_ptr<device_memory> flush_device_;  // a page of the device's, read by each flush
  std::unique_ptr<endpoint> control_;
  fi_addr_t control_peer_ = FI_ADDR_NOTAVAIL;
  std::uint64_t peer_mailbox_ = 0;
  std::array<std::uint64_t, rails> peer_keys_{};

  std::array<rx_request, rx_buffers> rx_;
  rx_request close_rx_;
  std::byte close_byte_{};
  std::deque<request> requests_;
  std::map<unsigned, incoming> incoming_;
  std::deque<std::pair<rx_request*, std::size_t>> arrived_early_;
  unsigned next_receive_ = 0;
  unsigned next_send_ = 0;
  unsigned next_scheduled_ = 0;
  bool peer_closed_ = false;
};

}  // namespace gaudi::test::nccl
