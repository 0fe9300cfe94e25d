// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A rail of NIXL's libfabric backend, and what its engine does with one: the calls of NIXL 1.4.0 in
// their order and with their arguments. The functions are those of src/utils/libfabric and
// src/plugins/libfabric there. What differs: FI_HMEM_SYNAPSEAI, by the patch in
// util/consumers/nixl.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "../node.hpp"

namespace gaudi::test::nixl {

inline constexpr std::size_t control_size = 8192;      // NIXL_LIBFABRIC_SEND_RECV_BUFFER_SIZE
inline constexpr std::size_t control_requests = 4096;  // NIXL_LIBFABRIC_CONTROL_REQUESTS_PER_RAIL
inline constexpr std::size_t receives = 1024;          // NIXL_LIBFABRIC_RECV_POOL_SIZE
inline constexpr std::size_t batch = 16;               // NIXL_LIBFABRIC_FI_MORE_BATCH_SIZE
inline constexpr std::uint64_t notification = 2;       // NIXL_LIBFABRIC_MSG_NOTIFICTION
inline constexpr std::uint64_t transfer = 4;           // NIXL_LIBFABRIC_MSG_TRANSFER
inline constexpr std::uint64_t handshake = 8;          // NIXL_LIBFABRIC_MSG_HANDSHAKE

/// getAvailableNetworkDevices(): the domain of the first entry of this provider, empty for none.
std::string discover();

using endpoint_name = std::array<char, 56>;  // LF_EP_NAME_MAX_LEN

/// Local and remote end of one descriptor of postXfer().
struct page {
  std::byte* local;
  std::uint64_t remote;
  std::size_t size;
};

class rail {
 public:
  /// nixlLibfabricRail's constructor.
  explicit rail(const std::string& device);
  ~rail();
  rail(const rail&) = delete;
  rail& operator=(const rail&) = delete;

  [[nodiscard]] fid_domain* domain() const { return domain_; }
  [[nodiscard]] bool has_hmem() const { return has_hmem_; }
  [[nodiscard]] endpoint_name name() const { return name_; }

  /// insertAddress(); postControlMessage() sends the handshake.
  void connect(const endpoint_name& peer);
  /// registerMemory(); the provider's keys are virtual addresses' (FI_MR_VIRT_ADDR).
  [[nodiscard]] fid_ptr<fid_mr> register_memory(std::span<std::byte> range, bool device);

  /// postXferDescriptors(), of pages in one memory region each; FI_MORE for all but each 16th.
  void write(const std::vector<page>& pages, fid_mr* local, std::uint64_t key);
  void read(const std::vector<page>& pages, fid_mr* local, std::uint64_t key);
  /// notifSendPriv(), a message of one fragment.
  void notify(const std::string& text);

  /// progressCompletionQueue() with FI_CQ_FORMAT_DATA, 16 entries at most; false: there are none.
  bool progress();

  [[nodiscard]] std::size_t outstanding() const {
    return outstanding_;
  }                                                               ///< transfers of this side
  [[nodiscard]] std::size_t written() const { return written_; }  ///< by the peer
  [[nodiscard]] bool is_met() const { return met_; }              ///< its handshake came
  std::deque<std::string> notifications;

 private:
  struct request {
    fi_context2 context{};  // first, as NIXL casts the context back
    std::byte* buffer = nullptr;
    bool is_receive = false;
  };

  void open(fi_info* hints);
  void post_receive(request& r);
  void send(std::uint64_t type, const std::string& text);
  void handle(const fi_cq_data_entry& entry);
  void handle_receive(request& r, const fi_cq_data_entry& entry);
  request& control_request();
  request& data_request();
  template <class Call>
  void post(const char* what, Call call);

  fi_info* info_ = nullptr;
  bool has_hmem_ = false;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  endpoint_name name_{};
  fi_addr_t peer_ = FI_ADDR_UNSPEC;

  std::vector<std::byte> control_memory_;
  fid_mr* control_mr_ = nullptr;
  std::vector<request> control_;
  std::vector<request*> free_control_;
  std::deque<request> data_;
  std::vector<request*> free_data_;
  std::size_t outstanding_ = 0;
  std::size_t written_ = 0;
  bool met_ = false;
};

}  // namespace gaudi::test::nixl
