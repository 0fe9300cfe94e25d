// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// HCL's objects and operations on one interface. Follows HCL 1.21.0, ofi_component_t and
// ofi_rdm_component_t of hcl/src/libfabric/hl_ofi_component.cpp and hl_ofi_rdm_component.cpp: the
// same calls in the same order with the same arguments; the functions are named at each step.
#pragma once

#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "choice.hpp"

namespace gaudi::test::hcl {

/// ofi_req_t: completions lead back to it from its fi_context.
struct request {
  fi_context context{};
  enum class state { pending, completed, failed } now = state::pending;
  bool receives = false;
  bool* accepted = nullptr;  ///< lComm->accepted, of a control message
  std::size_t size = 0;
};

/// Handle of a listening side (listenComm_t, and what ofi_t::listen() gives to the peer).
struct listener {
  std::array<char, 56> name{};  ///< MAX_EP_ADDR
  std::uint64_t tag = 0;
  bool accepted = false;
  unsigned set = 0;
};

/// ofi_comm_t: one direction of a connection.
struct comm {
  std::uint64_t tag = 0;
  fi_addr_t remote = 0;
  unsigned set = 0;
};

/// MRParams, as LibfabricScaleoutProvider (platform/gen2_arch_common/scaleout_provider.cpp) fills
/// it from SCAL: the dma-buf begins at `base` + `offset`.
struct pool {
  int device_fd = -1;
  std::uint64_t base = 0;    ///< device_base_allocated_address
  std::uint64_t offset = 0;  ///< of device_base_address
  std::uint64_t size = 0;    ///< totalSize
};

/// FileDescriptor of infra/fd.h.
struct descriptor {
  int fd = -1;
  descriptor() = default;
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

/// hlthunk_device_mapped_memory_export_dmabuf_fd.
using export_function = int(int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t);

class component {
 public:
  /// The last QP set has an endpoint of a domain of its own (HCL_HNIC_SCALE_OUT_QP_SETS).
  static constexpr unsigned sets = 2;
  static constexpr unsigned single_set = sets - 1;

  /// The constructors of ofi_component_t and ofi_rdm_component_t.
  component(fi_info* info, int module_id, bool gaudi_direct);

  /// initializeMemoryRegion(), with HCL_FABRIC_FLUSH on.
  void register_pool(const pool& memory, export_function* export_dmabuf);
  /// The same for host memory.
  void register_host(void* base, std::size_t size);

  listener listen(unsigned set);
  comm connect(const listener& peer);
  comm accept(listener& own);

  /// isend() and irecv(), repeated as ofiCommOp() (libfabric_common.h) does while there is no room.
  /// An error throws.
  void send(const comm& to, std::uint64_t address, std::size_t size, request& r);
  void receive(const comm& from, std::uint64_t address, std::size_t size, request& r);
  /// ofi_t::test() until done. An error throws.
  void wait(request& r, unsigned set);

  /// process_first_recv_completion() and _flush(): what follows the first receive of a batch.
  void flush();

  [[nodiscard]] unsigned flushes() const noexcept { return flushes_; }
  [[nodiscard]] std::uint32_t flushed_word() const noexcept { return flush_local_buffer_; }

 private:
  static constexpr std::size_t burst = 256;  // OFI_CQ_BURST_PROC
  struct endpoint_set {
    // As shared pointers that go in the order of a tuple: endpoint, vector, queue.
    fid_ptr<fid_av> addresses;
    fid_ptr<fid_ep> endpoint;
    void* descriptor = nullptr;
    std::map<std::vector<char>, fi_addr_t> known;
  };

  static fid_ptr<fid_fabric> create_fabric(const fi_info& info);
  static fid_ptr<fid_domain> create_domain(fid_fabric* fabric, fi_info* info);
  static fid_ptr<fid_cq> create_cq(fid_domain* domain);
  static fid_ptr<fid_av> create_av(fid_domain* domain);
  static fid_ptr<fid_ep> create_ep(fi_info* info, fid_domain* domain, fid_cq* cq, fid_av* av);
  static fi_addr_t create_address(fid_ep* ep, fid_av* av);
  static fid_ptr<fid_mr> create_mr(fid_domain* domain, std::uint64_t data, std::size_t size,
                                   fi_hmem_iface iface, int dmabuf_fd);

  fid_cq* queue_of(unsigned set) const { return set == single_set ? cq_single_.get() : cq_.get(); }
  endpoint_set& acquire_resources(unsigned set);
  fi_addr_t address_of(endpoint_set& e, const std::array<char, 56>& name);
  void progress(fid_cq* cq);
  void process_completions(const std::vector<fi_cq_tagged_entry>& entries, std::size_t count);
  void progress_flush();

  // In the order of ofi_component_t's members, which end in reverse.
  fi_info* const info_;
  const bool gaudi_direct_;
  const std::uint64_t max_tag_;
  std::uint64_t tag_;
  unsigned flushes_ = 0;
  fid_ptr<fid_fabric> fabric_;
  fid_ptr<fid_domain> domain_;
  descriptor dmabuf_;
  fid_ptr<fid_mr> mr_;
  fid_ptr<fid_fabric> fabric_single_;
  fid_ptr<fid_domain> domain_single_;
  fid_ptr<fid_mr> mr_single_;
  fid_ptr<fid_fabric> flush_fabric_;
  fid_ptr<fid_domain> flush_domain_;
  fid_ptr<fid_cq> flush_cq_;
  fid_ptr<fid_av> flush_av_;
  fid_ptr<fid_ep> flush_ep_;
  fi_addr_t flush_address_ = 0;
  fid_ptr<fid_mr> flush_local_;
  fid_ptr<fid_mr> flush_remote_;
  std::uint32_t flush_local_buffer_ = 0;
  std::uint64_t flush_remote_buffer_ = 0;
  // Of ofi_rdm_component_t.
  std::vector<fi_cq_tagged_entry> entries_;
  fid_ptr<fid_cq> cq_;
  fid_ptr<fid_cq> cq_single_;
  std::map<unsigned, endpoint_set> endpoints_;
};

}  // namespace gaudi::test::hcl
