// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/shared_context.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/rdm/option_value.hpp"
#include "fi/rdm/receive_ops.hpp"

namespace gaudi::fi {
namespace {

int close_receives(fid_t f) noexcept {
  srx& self = srx::of(f);
  domain& parent = self.parent();
  if (parent.used_after_fork()) return 0;
  if (self.bound().any()) {
    GAUDI_INFO(EP_CTRL, "shared context stays open: close the endpoints that are bound to it\n");
    return -FI_EBUSY;
  }
  const base::scoped_domain_lock lock(parent.lock());
  delete &self;
  return 0;
}

int close_transmits(fid_t f) noexcept {
  stx& self = stx::of(f);
  if (!self.parent().used_after_fork()) delete &self;
  return 0;
}

ssize_t cancel_shared(fid_t f, void* context) noexcept {
  return guarded([&]() -> ssize_t {
    srx& self = srx::of(f);
    if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(self.parent().lock());
    return self.receives().cancel(context);
  });
}

int getopt(fid_t f, int level, int name, void* out, std::size_t* length) noexcept {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  srx& self = srx::of(f);
  if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(self.parent().lock());
  return give_option(self.receives().min_multi_recv(), out, length);
}

int setopt(fid_t f, int level, int name, const void* in, std::size_t length) noexcept {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  srx& self = srx::of(f);
  if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
  std::size_t least = 0;
  if (const int ret = take_option(least, in, length)) return ret;
  const base::scoped_domain_lock lock(self.parent().lock());
  self.receives().set_min_multi_recv(least);
  return 0;
}

fi_ops receives_fid_ops = only_close<close_receives>();
fi_ops transmits_fid_ops = only_close<close_transmits>();

padded<fi_ops_ep> receives_ep_ops{{.size = sizeof(fi_ops_ep),
                                   .cancel = cancel_shared,
                                   .getopt = getopt,
                                   .setopt = setopt,
                                   .tx_ctx = not_supported,
                                   .rx_ctx = not_supported,
                                   .rx_size_left = not_supported,
                                   .tx_size_left = not_supported}};
padded<fi_ops_ep> transmits_ep_ops{{.size = sizeof(fi_ops_ep),
                                    .cancel = not_supported,
                                    .getopt = not_supported,
                                    .setopt = not_supported,
                                    .tx_ctx = not_supported,
                                    .rx_ctx = not_supported,
                                    .rx_size_left = not_supported,
                                    .tx_size_left = not_supported}};

using shared_receive = receive_ops<srx>;

fi_ops_msg receives_msg_ops{.size = sizeof(fi_ops_msg),
                            .recv = shared_receive::recv,
                            .recvv = shared_receive::recvv,
                            .recvmsg = shared_receive::recvmsg,
                            .send = not_supported,
                            .sendv = not_supported,
                            .sendmsg = not_supported,
                            .inject = not_supported,
                            .senddata = not_supported,
                            .injectdata = not_supported};

fi_ops_tagged receives_tagged_ops{.size = sizeof(fi_ops_tagged),
                                  .recv = shared_receive::trecv,
                                  .recvv = shared_receive::trecvv,
                                  .recvmsg = shared_receive::trecvmsg,
                                  .send = not_supported,
                                  .sendv = not_supported,
                                  .sendmsg = not_supported,
                                  .inject = not_supported,
                                  .senddata = not_supported,
                                  .injectdata = not_supported};

}  // namespace

srx::srx(domain& parent, const fi_rx_attr& attr, void* user_context)
    : fid_ep{.fid = {.fclass = FI_CLASS_SRX_CTX, .context = user_context, .ops = &receives_fid_ops},
             .ops = &receives_ep_ops,
             .cm = nullptr,
             .msg = &receives_msg_ops,
             .rma = nullptr,
             .tagged = &receives_tagged_ops,
             .atomic = nullptr,
             .collective = nullptr},
      parent_(parent),
      hold_(parent.open_children()),
      default_flags_(attr.op_flags),
      core_(proto::receive_context::default_min_multi_recv(parent.eager_size())) {}

int srx::open(fid_domain* d, fi_rx_attr* attr, fid_ep** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!out) return -FI_EINVAL;
    if (domain::of(d).used_after_fork()) return -FI_EOPBADSTATE;
    *out = new srx(domain::of(d), attr ? *attr : fi_rx_attr{}, context);
    return 0;
  });
}

stx::stx(domain& parent, void* user_context) noexcept
    : fid_stx{.fid = {.fclass = FI_CLASS_STX_CTX,
                      .context = user_context,
                      .ops = &transmits_fid_ops},
              .ops = &transmits_ep_ops},
      parent_(parent),
      hold_(parent.open_children()) {}

int stx::open(fid_domain* d, fi_tx_attr*, fid_stx** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (!out) return -FI_EINVAL;
    if (domain::of(d).used_after_fork()) return -FI_EOPBADSTATE;
    *out = new stx(domain::of(d), context);
    return 0;
  });
}

}  // namespace gaudi::fi
