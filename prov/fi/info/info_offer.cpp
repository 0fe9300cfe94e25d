// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/info_offer.hpp"

#include <rdma/fi_errno.h>

#include "base/log.hpp"

namespace gaudi::fi::offer {
namespace {

/// Collects "asked for X, offered Y" until the first thing that does not fit.
class checker {
 public:
  void bits(const char* what, std::uint64_t asked, std::uint64_t offered) {
    if (good_ && (asked & ~offered) != 0) {
      refuse();
      GAUDI_INFO(CORE, "hints ask for %s 0x%llx; offered is 0x%llx\n", what,
                 static_cast<unsigned long long>(asked), static_cast<unsigned long long>(offered));
    }
  }
  void at_most(const char* what, std::uint64_t asked, std::uint64_t limit) {
    if (good_ && asked > limit) {
      refuse();
      GAUDI_INFO(CORE, "hints ask for %s %llu; at most %llu is offered\n", what,
                 static_cast<unsigned long long>(asked), static_cast<unsigned long long>(limit));
    }
  }
  void that(bool fits, const char* what) {
    if (good_ && !fits) {
      refuse();
      GAUDI_INFO(CORE, "hints ask for %s, which is not offered\n", what);
    }
  }
  [[nodiscard]] base::result<void> verdict() const {
    if (good_) return {};
    return base::error{-FI_ENODATA};
  }

 private:
  void refuse() { good_ = false; }
  bool good_ = true;
};

void check_tx(checker& c, const fi_tx_attr& tx) {
  c.bits("tx_attr caps", tx.caps, caps);
  c.bits("tx_attr op_flags", tx.op_flags, tx_op_flags);
  c.bits("tx_attr msg_order", tx.msg_order, msg_order);
  c.that(tx.comp_order == retired::order_none, "ordered completions");
  c.at_most("tx_attr inject_size", tx.inject_size, inject_size);
  c.at_most("tx_attr size", tx.size, queue_size);
  c.at_most("tx_attr iov_limit", tx.iov_limit, iov_limit);
  c.at_most("tx_attr rma_iov_limit", tx.rma_iov_limit, rma_iov_limit);
}

void check_rx(checker& c, const fi_rx_attr& rx, std::size_t unexpected_limit) {
  c.bits("rx_attr caps", rx.caps, caps);
  c.bits("rx_attr op_flags", rx.op_flags, rx_op_flags);
  c.bits("rx_attr msg_order", rx.msg_order, msg_order);
  c.that(rx.comp_order == retired::order_none, "ordered completions");
  c.at_most("rx_attr total_buffered_recv", rx.total_buffered_recv, unexpected_limit);
  c.at_most("rx_attr size", rx.size, queue_size);
  c.at_most("rx_attr iov_limit", rx.iov_limit, iov_limit);
}

void check_ep(checker& c, const fi_ep_attr& ep) {
  c.that(ep.type == FI_EP_UNSPEC || ep.type == FI_EP_RDM, "an endpoint other than FI_EP_RDM");
  c.that(ep.protocol == FI_PROTO_UNSPEC || ep.protocol == protocol, "another wire protocol");
  c.at_most("protocol_version", ep.protocol_version, protocol_version);
  c.at_most("max_msg_size", ep.max_msg_size, max_msg_size);
  c.at_most("max_order_raw_size", ep.max_order_raw_size, max_msg_size);
  c.at_most("max_order_war_size", ep.max_order_war_size, 0);
  c.at_most("max_order_waw_size", ep.max_order_waw_size, max_msg_size);
  // Without a context of its own an endpoint is bound to one that others share.
  if (ep.tx_ctx_cnt != FI_SHARED_CONTEXT) c.at_most("ep_attr tx_ctx_cnt", ep.tx_ctx_cnt, 1);
  if (ep.rx_ctx_cnt != FI_SHARED_CONTEXT) c.at_most("ep_attr rx_ctx_cnt", ep.rx_ctx_cnt, 1);
  c.at_most("auth_key_size", ep.auth_key_size, 0);
}

void check_domain(checker& c, const fi_domain_attr& domain) {
  c.at_most("mr_key_size", domain.mr_key_size, mr_key_size);
  c.at_most("cq_data_size", domain.cq_data_size, cq_data_size);
  c.at_most("max_ep_tx_ctx", domain.max_ep_tx_ctx, 1);
  c.at_most("max_ep_rx_ctx", domain.max_ep_rx_ctx, 1);
  c.at_most("max_ep_stx_ctx", domain.max_ep_stx_ctx, object_count);
  c.at_most("max_ep_srx_ctx", domain.max_ep_srx_ctx, object_count);
  c.at_most("cntr_cnt", domain.cntr_cnt, object_count);
  c.at_most("mr_iov_limit", domain.mr_iov_limit, mr_iov_limit);
  c.bits("domain_attr caps", domain.caps, domain_caps);
  c.at_most("auth_key_size", domain.auth_key_size, 0);
  c.at_most("max_err_data", domain.max_err_data, 0);
  c.at_most("mr_cnt", domain.mr_cnt, mr_count);
}

/// The application's words from before libfabric 1.5, or from one that still uses them.
base::result<int> granted_old_mode(int asked) noexcept {
  if (asked == retired::mr_unspec || asked == retired::mr_basic) return retired::mr_basic;
  if (asked == retired::mr_scalable) return retired::mr_scalable;
  GAUDI_INFO(CORE, "mr_mode 0x%x mixes FI_MR_BASIC or FI_MR_SCALABLE with other bits\n", asked);
  return base::error{-FI_ENODATA};
}

}  // namespace

std::uint64_t granted_caps(std::uint64_t asked, bool hmem) noexcept {
  if (asked == 0) return (hmem ? caps : caps & ~FI_HMEM) & ~only_if_asked;
  std::uint64_t granted = asked | domain_caps;
  if ((granted & (FI_MSG | FI_TAGGED)) && !(granted & message_directions)) {
    granted |= message_directions;
  }
  if ((granted & (FI_RMA | FI_ATOMIC)) && !(granted & rma_directions)) granted |= rma_directions;
  return hmem ? granted | FI_HMEM : granted;
}

base::result<int> granted_mr_mode(std::uint32_t version, const fi_info* hints, bool hmem,
                                  bool local) noexcept {
  const bool has_hints = hints && hints->domain_attr;
  const int asked = has_hints ? hints->domain_attr->mr_mode : 0;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5)) ||
      (asked & (retired::mr_basic | retired::mr_scalable))) {
    if (hmem) return base::error{-FI_ENODATA};
    return granted_old_mode(asked);
  }
  const int offered = has_hints ? asked : direct_mr_mode | FI_MR_HMEM;
  if (hmem && !(offered & FI_MR_HMEM)) {
    GAUDI_INFO(CORE, "FI_HMEM needs FI_MR_HMEM in mr_mode, which is 0x%x\n", offered);
    return base::error{-FI_ENODATA};
  }
  // Where the target's software sees each access, the core's keys are of no use.
  const bool events = hints && (hints->caps & FI_RMA_EVENT);
  const bool can_be_direct = (offered & direct_mr_mode) == direct_mr_mode && !events;
  const int direct = can_be_direct ? direct_mr_mode : 0;
  return direct | (hmem ? FI_MR_HMEM : 0) | (local ? asked & FI_MR_LOCAL : 0);
}

base::result<void> check(const fi_info& hints, std::size_t unexpected_limit) noexcept {
  checker c;
  c.bits("caps", hints.caps, caps);
  c.that(!(hints.caps & FI_SOURCE_ERR) || (hints.caps & FI_SOURCE),
         "FI_SOURCE_ERR without FI_SOURCE");
  if (hints.tx_attr) check_tx(c, *hints.tx_attr);
  if (hints.rx_attr) check_rx(c, *hints.rx_attr, unexpected_limit);
  if (hints.ep_attr) check_ep(c, *hints.ep_attr);
  if (hints.domain_attr) check_domain(c, *hints.domain_attr);
  return c.verdict();
}

}  // namespace gaudi::fi::offer
