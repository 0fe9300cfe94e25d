// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness.hpp"

namespace gaudi::test {

template <class T>
struct fid_close {
  void operator()(T* object) const { fi_close(&object->fid); }
};
template <class T>
using fid_ptr = std::unique_ptr<T, fid_close<T>>;

struct info_delete {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using info_ptr = std::unique_ptr<fi_info, info_delete>;

/// Throws with the call's name unless `ret` is 0 or more; gives it back otherwise.
long must(long ret, const std::string& call);

/// What a completion queue told. err != 0: an error entry.
struct completion {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::size_t len = 0;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int err = 0;
  std::size_t olen = 0;
  void* buf = nullptr;
};

struct node_options {
  std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA;
  int mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  fi_av_type av_type = FI_AV_TABLE;
  fi_cq_format cq_format = FI_CQ_FORMAT_TAGGED;
  fi_threading threading = FI_THREAD_SAFE;
  bool selective = false;
  fi_wait_obj wait = FI_WAIT_NONE;            ///< of the queue and the counters
  fi_progress progress = FI_PROGRESS_UNSPEC;  ///< FI_PROGRESS_AUTO: meet() lets nobody poll
  std::vector<std::uint64_t> counters{};      ///< opens one bound for each of these
  bool queue = true;                          ///< false: only the counters tell of operations
  bool device = false;                        ///< adds FI_HMEM and FI_MR_HMEM
};

/// Hints for the provider under test.
info_ptr hints_for(const node_options& options);

/// A context that is a number.
inline void* ctx(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

/// An endpoint of the provider under test with everything around it.
class node {
 public:
  explicit node(const node_options& options = {});

  std::string name() const;

  /// Exchanges names and fills peers(), by rank; polls while this rank waits from then on.
  void meet(rank& r);

  fi_info* info() const { return info_.get(); }
  fid_domain* domain() const { return domain_.get(); }
  fid_ep* ep() const { return ep_.get(); }
  fid_fabric* fabric() const { return fabric_.get(); }
  fid_cq* cq() const { return cq_.get(); }
  fid_cntr* counter(std::size_t i) const { return counters_.at(i).get(); }
  fid_av* av() const { return av_.get(); }
  fi_addr_t peer(int id) const { return peers_.at(static_cast<std::size_t>(id)); }
  fi_gaudi_ops& ops() const;
  /// Which way the bytes of this domain went.
  fi_gaudi_path_stats paths() const;
  fi_gaudi_device_stats device_stats() const;  ///< of the selected device

  /// Repeats a call that starts an operation while it gives -FI_EAGAIN, polling in between.
  template <class Call>
  void post(Call call) {
    const deadline end;
    long ret = call();
    while (ret == -FI_EAGAIN) {
      poll();
      end.check("posting an operation");
      ret = call();
    }
    must(ret, "posting an operation");
  }

  /// Takes what the queue has into a list of its own.
  void poll();

  /// The next completion of that context (of any without one), in the queue's order.
  completion wait(void* context);
  completion wait_any();
  /// One that poll() has taken already, if any: of that context, or the first.
  std::optional<completion> take(void* context);
  std::optional<completion> take_any();
  bool has_completion();

 private:
  class deadline {
   public:
    void check(const char* what) const;

   private:
    std::chrono::steady_clock::time_point end_ =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
  };

  void open_counters(const node_options& options);
  bool poll_entries();
  void take_error();

  fi_cq_format format_;
  std::deque<completion> done_;
  std::vector<fi_addr_t> peers_;
  info_ptr info_;
  fid_ptr<fid_fabric> fabric_;
  fid_ptr<fid_domain> domain_;
  fid_ptr<fid_cq> cq_;
  std::vector<fid_ptr<fid_cntr>> counters_;
  fid_ptr<fid_av> av_;
  fid_ptr<fid_ep> ep_;
};

/// Registered memory, host or of the device that the node's domain has selected, and has again when
/// it is used here. Its contents are reached with put and get only.
class memory {
 public:
  memory(node& n, std::size_t size, bool device, std::uint64_t key = 0);
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory();

  void* at(std::size_t offset) const { return reinterpret_cast<void*>(base_ + offset); }
  fid_mr* mr() const { return mr_.get(); }
  void* desc() const { return fi_mr_desc(mr_.get()); }
  std::uint64_t key() const { return fi_mr_key(mr_.get()); }

  /// The address that the peer uses in RMA.
  std::uint64_t remote(std::size_t offset) const;

  void put(std::size_t offset, const std::vector<std::byte>& bytes);
  std::vector<std::byte> get(std::size_t offset, std::size_t size) const;

 private:
  node& node_;
  bool device_;
  std::vector<std::byte> host_;
  std::uint64_t base_ = 0;
  fid_ptr<fid_mr> mr_;
};

/// Registers, memory of the device with that number; returns libfabric's code.
int register_range(fid_domain* domain, void* base, std::size_t size, fi_hmem_iface iface,
                   std::uint64_t key, fid_ptr<fid_mr>& out, int number = 0);

}  // namespace gaudi::test
