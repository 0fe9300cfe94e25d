// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "core/inner_domain.hpp"

namespace gaudi::test {

/// The core's domain of an RDMA NIC that registers everything and connects with itself, if it is
/// to, as far as reg::nic_loopback and reg::write_flush ask it to. One at a time.
class looping_nic {
 public:
  looping_nic() {
    self() = this;
    set_operations();
    fabric_.fid = {.fclass = FI_CLASS_FABRIC, .context = nullptr, .ops = &unowned_ops_};
    fabric_.ops = &fabric_ops_;
    domain_.fid = {.fclass = FI_CLASS_DOMAIN, .context = nullptr, .ops = &unowned_ops_};
    domain_.ops = &domain_ops_;
    domain_.mr = &mr_ops_;
    core::unique_info info(fi_allocinfo());
    info->fabric_attr->prov_name = ::strdup("verbs");
    info->domain_attr->name = ::strdup("fake_0");
    info->ep_attr->max_msg_size = 1 << 20;
    core_ = *core::inner_domain::open_over(core::unique_fid<fid_fabric>(&fabric_), std::move(info),
                                           {}, FI_VERSION(2, 1));
  }
  ~looping_nic() = default;
  looping_nic(const looping_nic&) = delete;
  looping_nic& operator=(const looping_nic&) = delete;

  [[nodiscard]] core::inner_domain& core() { return *core_; }

  int connect_error = 0;            ///< of attempts to connect, 0: they succeed
  int read_error = 0;               ///< of reads
  unsigned attempts = 0;            ///< to connect
  unsigned reads = 0;               ///< that succeeded
  unsigned copies = 0;              ///< by a message, whose bytes stay where they are
  unsigned landings = 0;            ///< host memory that was registered
  unsigned dmabufs = 0;             ///< that were registered
  unsigned live = 0;                ///< registrations that have not ended
  int dmabuf_error = 0;             ///< of registering one
  std::uint64_t last_access = 0;    ///< of what was registered
  void* last_descriptor = nullptr;  ///< of the memory that a read went to
  /// Of the last copy by a message.
  struct {
    const void* from;
    const void* to;
    void* of_source;
    void* of_target;
  } last_copy{};
  std::function<void()> meanwhile{};  ///< happens during a read or copy

 private:
  static looping_nic*& self() {
    static looping_nic* one;
    return one;
  }
  /// An object of libfabric's that its close ends.
  template <class Fid>
  static int make(Fid** out, void (*fill)(Fid&)) {
    auto made = std::make_unique<Fid>();
    static fi_ops ops{};
    ops.close = [](fid_t f) {
      delete reinterpret_cast<Fid*>(f);
      return 0;
    };
    ops.bind = [](fid_t, fid_t, std::uint64_t) { return 0; };
    ops.control = [](fid_t, int, void*) { return 0; };
    made->fid.ops = &ops;
    fill(*made);
    *out = made.release();
    return 0;
  }

  void set_operations() {
    unowned_ops_.close = [](fid_t) { return 0; };
    fabric_ops_.domain = [](fid_fabric*, fi_info*, fid_domain** out, void*) {
      *out = &self()->domain_;
      return 0;
    };
    fabric_ops_.eq_open = [](fid_fabric*, fi_eq_attr*, fid_eq** out, void*) {
      return make<fid_eq>(out, [](fid_eq& eq) { eq.ops = &self()->eq_ops_; });
    };
    fabric_ops_.passive_ep = [](fid_fabric*, fi_info*, fid_pep** out, void*) {
      ++self()->attempts;
      if (self()->connect_error != 0) return self()->connect_error;
      return make<fid_pep>(out, [](fid_pep& pep) { pep.cm = &self()->cm_ops_; });
    };
    domain_ops_.cq_open = [](fid_domain*, fi_cq_attr*, fid_cq** out, void*) {
      return make<fid_cq>(out, [](fid_cq& cq) { cq.ops = &self()->cq_ops_; });
    };
    domain_ops_.endpoint = [](fid_domain*, fi_info*, fid_ep** out, void*) {
      return make<fid_ep>(out, [](fid_ep& ep) {
        ep.cm = &self()->cm_ops_;
        ep.rma = &self()->rma_ops_;
        ep.msg = &self()->msg_ops_;
      });
    };
    set_connection_operations();
    set_data_operations();
  }

  void set_connection_operations() {
    cm_ops_.listen = [](fid_pep*) { return 0; };
    cm_ops_.getname = [](fid_t, void*, std::size_t* length) {
      *length = 16;
      return 0;
    };
    cm_ops_.connect = [](fid_ep*, const void*, const void*, std::size_t) {
      self()->events_.push_back(FI_CONNREQ);
      return 0;
    };
    cm_ops_.accept = [](fid_ep*, const void*, std::size_t) {
      self()->events_.push_back(FI_CONNECTED);
      self()->events_.push_back(FI_CONNECTED);
      return 0;
    };
    eq_ops_.read = [](fid_eq*, std::uint32_t* event, void* into, std::size_t, std::uint64_t) {
      if (self()->events_.empty()) return ssize_t{-FI_EAGAIN};
      *event = self()->events_.front();
      self()->events_.pop_front();
      static_cast<fi_eq_cm_entry*>(into)->info = *event == FI_CONNREQ ? fi_allocinfo() : nullptr;
      return static_cast<ssize_t>(sizeof(fi_eq_cm_entry));
    };
  }

  void set_data_operations() {
    rma_ops_.read = [](fid_ep*, void*, std::size_t, void* descriptor, fi_addr_t, std::uint64_t,
                       std::uint64_t, void*) {
      self()->last_descriptor = descriptor;
      if (self()->meanwhile) self()->meanwhile();
      self()->reads += self()->read_error == 0 ? 1 : 0;
      return ssize_t{self()->read_error};
    };
    msg_ops_.recv = [](fid_ep*, void* to, std::size_t, void* descriptor, fi_addr_t, void*) {
      self()->last_copy.to = to;
      self()->last_copy.of_target = descriptor;
      return ssize_t{0};
    };
    msg_ops_.send = [](fid_ep*, const void* from, std::size_t, void* descriptor, fi_addr_t, void*) {
      self()->last_copy.from = from;
      self()->last_copy.of_source = descriptor;
      if (self()->meanwhile) self()->meanwhile();
      ++self()->copies;
      return ssize_t{0};
    };
    cq_ops_.read = [](fid_cq*, void*, std::size_t) { return ssize_t{1}; };
    mr_ops_.reg = [](fid_t, const void*, std::size_t, std::uint64_t access, std::uint64_t,
                     std::uint64_t, std::uint64_t, fid_mr** out, void*) {
      ++self()->landings;
      return self()->register_for(access, out);
    };
    mr_ops_.regattr = [](fid_t, const fi_mr_attr* attr, std::uint64_t, fid_mr** out) {
      if (self()->dmabuf_error != 0) return self()->dmabuf_error;
      ++self()->dmabufs;
      return self()->register_for(attr->access, out);
    };
  }
  int register_for(std::uint64_t access, fid_mr** out) {
    last_access = access;
    ++live;
    static fi_ops ops{};
    ops.close = [](fid_t f) {
      --self()->live;
      delete reinterpret_cast<fid_mr*>(f);
      return 0;
    };
    auto made = std::make_unique<fid_mr>();
    made->fid.ops = &ops;
    made->mem_desc = made.get();
    *out = made.release();
    return 0;
  }

  fi_ops unowned_ops_{};
  fi_ops_fabric fabric_ops_{};
  fi_ops_domain domain_ops_{};
  fi_ops_mr mr_ops_{};
  fi_ops_eq eq_ops_{};
  fi_ops_cq cq_ops_{};
  fi_ops_cm cm_ops_{};
  fi_ops_rma rma_ops_{};
  fi_ops_msg msg_ops_{};
  std::deque<std::uint32_t> events_;
  fid_fabric fabric_{};
  fid_domain domain_{};
  std::unique_ptr<core::inner_domain> core_;
};

}  // namespace gaudi::test
