// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <memory>
#include <vector>

#include "fi/common/child_count.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/wait_object.hpp"
#include "proto/operation/completion_queue.hpp"

namespace gaudi::fi {

/// fid_cq of the provider, see fi_cq(3). Reading progresses the endpoints that report here, and now
/// and then the whole domain (manual progress).
class cq final : public fid_cq {
 public:
  cq(domain& parent, const fi_cq_attr& attr, std::unique_ptr<wait_object> object, void* context);

  static cq& of(fid_cq* c) noexcept { return *static_cast<cq*>(c); }
  static cq& of(fid_t f) noexcept { return of(reinterpret_cast<fid_cq*>(f)); }

  proto::completion_queue& entries() noexcept GAUDI_REQUIRES(parent().lock()) { return entries_; }
  child_count& bound() noexcept { return bound_; }
  /// An endpoint that reports here from now on, and one that is about to close. Throws
  /// std::bad_alloc.
  void serve(proto::endpoint& e) GAUDI_REQUIRES(parent().lock());
  void forget(proto::endpoint& e) noexcept GAUDI_REQUIRES(parent().lock());
  [[nodiscard]] domain& parent() const noexcept { return parent_; }

  ssize_t read(void* buf, std::size_t count, fi_addr_t* sources);
  ssize_t wait_and_read(void* buf, std::size_t count, fi_addr_t* sources, int timeout);
  ssize_t read_error(fi_cq_err_entry& out);
  void signal() noexcept;
  int control(int command, void* arg);
  [[nodiscard]] bool waitable() const noexcept { return object_ != nullptr; }

 private:
  void give_error_data(const proto::cq_entry& c, fi_cq_err_entry& out)
      GAUDI_REQUIRES(parent().lock());

  domain& parent_;
  child_count::ref hold_;
  child_count bound_;
  const fi_cq_format format_;
  const fi_wait_obj wait_obj_;
  const std::unique_ptr<wait_object> object_;
  std::atomic<bool> signalled_{false};
  std::vector<proto::endpoint*> served_ GAUDI_GUARDED_BY(parent().lock());
  proto::completion_queue entries_ GAUDI_GUARDED_BY(parent().lock());
  proto::net_address unknown_source_
      GAUDI_GUARDED_BY(parent().lock());  // what the last error entry read says of its source
};

/// The cq_open op of fid_domain. FI_CQ_FORMAT_UNSPEC becomes FI_CQ_FORMAT_CONTEXT in `attr`.
/// -FI_ENOSYS: wait objects other than NONE, UNSPEC, FD and YIELD.
int cq_open(fid_domain* d, fi_cq_attr* attr, fid_cq** out, void* context) noexcept;

}  // namespace gaudi::fi
