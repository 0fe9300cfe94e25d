// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <fcntl.h>
#include <rdma/fi_domain.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "base/scoped_fd.hpp"
#include "core/inner_domain.hpp"

namespace gaudi::test {

/// The core's domain of an RDMA NIC that takes dma-bufs, as far as registrations go. Outlives what
/// is opened of it.
class fake_nic {
 public:
  /// A registration: the range of device addresses that the NIC knows.
  struct registered : fid_mr {
    fake_nic* nic;
    std::uint64_t address;
    std::uint64_t length;
    int dmabuf;            ///< while it is made only
    std::uint64_t offset;  ///< of `address` in it
    std::uint64_t access;
    std::uint64_t note;    ///< the test's
    base::scoped_fd file;  ///< the dma-buf, as the kernel keeps it
  };

  /// Whether libfabric shall be one that takes dma-bufs (1.20) or, while there is a fake NIC, one
  /// that does not (1.17).
  static std::atomic<bool> knows_dmabufs;
  static inline std::atomic<int> count{0};  ///< fake NICs there are

  fake_nic() : fabric_{}, domain_{} {
    fabric_.ops = &fabric_ops;
    fabric_.fid.context = this;
    domain_.fid = {.fclass = FI_CLASS_DOMAIN, .context = this, .ops = &domain_fid_ops};
    domain_.mr = &mr_ops;
    core::unique_info info(fi_allocinfo());
    info->fabric_attr->prov_name = ::strdup("verbs");
    info->domain_attr->name = ::strdup("fake_0");
    core_ = *core::inner_domain::open_in(&fabric_, std::move(info));
    ++count;
  }
  ~fake_nic() { --count; }
  fake_nic(const fake_nic&) = delete;
  fake_nic& operator=(const fake_nic&) = delete;

  [[nodiscard]] core::inner_domain& core() { return *core_; }
  /// For a domain that owns it.
  [[nodiscard]] std::unique_ptr<core::inner_domain> release_core() { return std::move(core_); }
  [[nodiscard]] unsigned live() const { return live_; }    ///< registrations there are
  [[nodiscard]] unsigned asked() const { return asked_; }  ///< how often one was wanted

  /// As a real one does: without it a descriptor of this process's is not taken by one.
  bool keeps_files = false;
  /// Error for the registration that is wanted, 0: none.
  std::function<int()> refuse = [] { return 0; };
  /// What becomes of each.
  std::function<void(registered&)> made = [](registered&) {};
  std::function<void(const registered&)> ended = [](const registered&) {};

 private:
  struct dmabuf_range {  // struct fi_mr_dmabuf
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base_addr;
  };

  static int open_domain(fid_fabric* f, fi_info*, fid_domain** out, void*) {
    *out = &static_cast<fake_nic*>(f->fid.context)->domain_;
    return 0;
  }
  static int register_one(fid_t f, const fi_mr_attr* attr, std::uint64_t, fid_mr** out) {
    auto& self = *static_cast<fake_nic*>(f->context);
    ++self.asked_;
    if (const int ret = self.refuse()) return ret;
    const auto* range = reinterpret_cast<const dmabuf_range*>(attr->mr_iov);
    auto mr = std::make_unique<registered>();
    mr->fid = {.fclass = FI_CLASS_MR, .context = nullptr, .ops = &mr_fid_ops};
    mr->nic = &self;
    mr->address = reinterpret_cast<std::uint64_t>(range->base_addr) + range->offset;
    mr->length = range->len;
    mr->dmabuf = range->fd;
    mr->offset = range->offset;
    mr->access = attr->access;
    if (self.keeps_files) mr->file.reset(::fcntl(range->fd, F_DUPFD_CLOEXEC, 0));
    mr->key = self.asked_;
    mr->mem_desc = mr.get();
    ++self.live_;
    self.made(*mr);
    *out = mr.release();
    return 0;
  }
  /// Host memory.
  static int register_host(fid_t f, const void* base, std::size_t length, std::uint64_t access,
                           std::uint64_t, std::uint64_t, std::uint64_t, fid_mr** out, void*) {
    const dmabuf_range range{-1, 0, length, const_cast<void*>(base)};
    fi_mr_attr attr{};
    attr.mr_iov = reinterpret_cast<const iovec*>(&range);
    attr.access = access;
    return register_one(f, &attr, 0, out);
  }
  static int close_one(fid_t f) {
    const std::unique_ptr<registered> mr(static_cast<registered*>(reinterpret_cast<fid_mr*>(f)));
    mr->nic->ended(*mr);
    --mr->nic->live_;
    return 0;
  }

  static constexpr fi_ops closed_by(int (*close)(fid_t)) {
    return {.size = sizeof(fi_ops),
            .close = close,
            .bind = nullptr,
            .control = nullptr,
            .ops_open = nullptr,
            .tostr = nullptr,
            .ops_set = nullptr};
  }
  static inline fi_ops mr_fid_ops = closed_by(close_one);
  static inline fi_ops domain_fid_ops = closed_by([](fid_t) { return 0; });
  static inline fi_ops_fabric fabric_ops{.size = sizeof(fi_ops_fabric),
                                         .domain = open_domain,
                                         .passive_ep = nullptr,
                                         .eq_open = nullptr,
                                         .wait_open = nullptr,
                                         .trywait = nullptr,
                                         .domain2 = nullptr};
  static inline fi_ops_mr mr_ops{
      .size = sizeof(fi_ops_mr), .reg = register_host, .regv = nullptr, .regattr = register_one};

  fid_fabric fabric_;
  fid_domain domain_;
  std::unique_ptr<core::inner_domain> core_;
  std::atomic<unsigned> live_{0};
  std::atomic<unsigned> asked_{0};
};

}  // namespace gaudi::test
