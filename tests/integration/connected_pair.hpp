// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_ext_gaudi.h>
#include <rdma/fi_rma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "node.hpp"

namespace gaudi::test {

/// Two connected endpoints (FI_EP_MSG) of the provider under test, both in this process, in one
/// domain; with `device`, one that takes Gaudi memory. Throws where a call fails.
class connected_pair {
 public:
  explicit connected_pair(bool device);

  struct end {
    fid_ptr<fid_cq> cq;
    fid_ptr<fid_ep> ep;
  };
  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] bool device() const { return device_; }
  [[nodiscard]] fi_gaudi_ops& ops() const;

  /// Repeats a call while the core has no room; throws when it fails.
  template <class Call>
  void post(Call&& call) {
    long ret;
    while ((ret = call()) == -FI_EAGAIN) progress();
    must(ret, "posting an operation");
  }
  /// The next completion of `e`, while both progress. Throws after some seconds without.
  fi_cq_tagged_entry wait(const end& e);
  /// The error of the next completion of `e`, a positive FI_E*.
  int wait_for_error(const end& e);

 private:
  void connect();
  void open_end(end& e, fi_info& with);
  fi_info* next_event(std::uint32_t wanted);
  void progress() const;

  const bool device_;
  info_ptr info_;
  fid_ptr<fid_fabric> fabric_;
  fid_ptr<fid_eq> events_;
  fid_ptr<fid_domain> domain_;
  fid_ptr<fid_pep> listener_;

 public:
  // Last, so that they close before what they were opened in.
  end sender;
  end receiver;
};

/// Registered memory of a pair's domain, in its Gaudi or in the host.
class pair_memory {
 public:
  pair_memory(connected_pair& pair, std::size_t size);
  pair_memory(const pair_memory&) = delete;
  pair_memory& operator=(const pair_memory&) = delete;
  ~pair_memory();

  [[nodiscard]] void* at(std::size_t offset) const {
    return reinterpret_cast<void*>(base_ + offset);
  }
  [[nodiscard]] void* desc() const { return fi_mr_desc(mr_.get()); }
  [[nodiscard]] std::uint64_t key() const { return fi_mr_key(mr_.get()); }
  [[nodiscard]] std::uint64_t remote(std::size_t offset) const;
  void put(std::size_t offset, const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> get(std::size_t offset, std::size_t size) const;

 private:
  connected_pair& pair_;
  std::vector<std::byte> host_;
  std::uint64_t base_ = 0;
  fid_ptr<fid_mr> mr_;
};

}  // namespace gaudi::test
