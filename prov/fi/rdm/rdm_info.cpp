// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/rdm_info.hpp"

#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/params.hpp"
#include "core/get_info.hpp"
#include "fi/common/retired.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/info/hmem.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/info/nic_bus.hpp"
#include "fi/info/nic_order.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::fi {
namespace {

std::span<const std::byte> bytes_of(const void* data, std::size_t length) {
  return data ? std::span(static_cast<const std::byte*>(data), length)
              : std::span<const std::byte>();
}

void fill_tx(fi_tx_attr& tx, const fi_info* hints, std::uint64_t caps, std::uint64_t order) {
  const fi_tx_attr* asked = hints ? hints->tx_attr : nullptr;
  tx = {};
  tx.caps = caps & offer::tx_caps;
  if (asked && asked->caps) tx.caps = offer::granted_caps(asked->caps, false) & tx.caps;
  tx.op_flags = asked ? asked->op_flags : 0;
  tx.msg_order = order;
  tx.comp_order = retired::order_none;
  tx.inject_size = offer::inject_size;
  tx.size = offer::queue_size;
  tx.iov_limit = offer::iov_limit;
  tx.rma_iov_limit = (caps & FI_RMA) ? offer::rma_iov_limit : 0;
}

void fill_rx(fi_rx_attr& rx, const info_request& r, std::uint64_t caps, std::uint64_t order) {
  const fi_rx_attr* asked = r.hints ? r.hints->rx_attr : nullptr;
  rx = {};
  rx.caps = caps & offer::rx_caps;
  if (asked && asked->caps) rx.caps = offer::granted_caps(asked->caps, false) & rx.caps;
  rx.op_flags = asked ? asked->op_flags : 0;
  rx.msg_order = order;
  rx.comp_order = retired::order_none;
  rx.total_buffered_recv = r.params().unexpected_limit;
  rx.size = offer::queue_size;
  rx.iov_limit = offer::iov_limit;
}

void fill_ep(fi_ep_attr& ep, const fi_info* hints, std::uint64_t order) {
  const fi_ep_attr* asked = hints ? hints->ep_attr : nullptr;
  ep = {};
  ep.type = FI_EP_RDM;
  ep.protocol = offer::protocol;
  ep.protocol_version = offer::protocol_version;
  ep.max_msg_size = offer::max_msg_size;
  ep.max_order_raw_size = (order & FI_ORDER_RMA_RAW) ? offer::max_msg_size : 0;
  ep.max_order_waw_size = (order & FI_ORDER_RMA_WAW) ? offer::max_msg_size : 0;
  ep.mem_tag_format =
      asked && asked->mem_tag_format ? asked->mem_tag_format : offer::mem_tag_format;
  ep.tx_ctx_cnt = asked && asked->tx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1;
  ep.rx_ctx_cnt = asked && asked->rx_ctx_cnt == FI_SHARED_CONTEXT ? FI_SHARED_CONTEXT : 1;
}

/// A thread of ours costs speed, so only who asks for it gets one.
fi_progress progress_for(fi_progress asked) {
  return asked == FI_PROGRESS_AUTO ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
}

/// Field by field: the object has the size of the running library's structure, which may be larger
/// than the one this file was compiled with.
void fill_domain(fi_domain_attr& domain, const info_request& r, int mr_mode) {
  const fi_domain_attr* asked = r.hints ? r.hints->domain_attr : nullptr;
  replace(domain.name, domain_name(domain.name ? domain.name : "", r.naming()));
  domain.threading = asked && asked->threading ? asked->threading : FI_THREAD_SAFE;
  domain.control_progress = progress_for(asked ? asked->control_progress : FI_PROGRESS_UNSPEC);
  domain.data_progress = progress_for(asked ? asked->data_progress : FI_PROGRESS_UNSPEC);
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.av_type = asked ? asked->av_type : FI_AV_UNSPEC;
  domain.mr_mode = mr_mode;
  domain.mr_key_size = offer::mr_key_size;
  domain.cq_data_size = offer::cq_data_size;
  domain.cq_cnt = offer::object_count;
  domain.ep_cnt = offer::object_count;
  domain.tx_ctx_cnt = offer::object_count;
  domain.rx_ctx_cnt = offer::object_count;
  domain.max_ep_tx_ctx = 1;
  domain.max_ep_rx_ctx = 1;
  domain.max_ep_stx_ctx = offer::object_count;
  domain.max_ep_srx_ctx = offer::object_count;
  domain.cntr_cnt = offer::object_count;
  domain.mr_iov_limit = offer::mr_iov_limit;
  domain.caps = offer::domain_caps;
  domain.mode = 0;
  domain.max_err_data = 0;
  domain.mr_cnt = offer::mr_count;
}

/// The order that the application wants, of its sends and of what it receives.
std::uint64_t asked_order(const fi_info* hints) {
  if (!hints) return 0;
  return (hints->tx_attr ? hints->tx_attr->msg_order : 0) |
         (hints->rx_attr ? hints->rx_attr->msg_order : 0);
}

/// The order to report. Several connections do not keep that of RMA, so where there are to be some
/// it is promised to who asks for it only.
std::uint64_t reported_order(const fi_info& core, const info_request& r, int mr_mode, bool hmem) {
  const std::uint64_t kept = offer::granted_order(core.tx_attr->msg_order, mr_mode, hmem);
  const bool has_rails = r.params().rails.count > 1 || !r.params().rails.interfaces.empty();
  if (!has_rails || (asked_order(r.hints) & offer::direct_order) != 0) return kept;
  const fi_ep_attr* const ep = r.hints ? r.hints->ep_attr : nullptr;
  if (ep && (ep->max_order_raw_size != 0 || ep->max_order_waw_size != 0)) return kept;
  return kept & ~offer::direct_order;
}

/// Our entry over the core's, null when memory is short. `hmem` must have been checked.
core::unique_info build(const fi_info& core, const info_request& r, bool hmem, int mr_mode) {
  core::unique_info info(fi_dupinfo(&core));
  if (!info) return info;
  info->caps = offer::granted_caps(r.hints ? r.hints->caps : 0, hmem);
  info->mode = 0;
  info->handle = nullptr;
  info->fabric_attr->fabric = nullptr;
  info->domain_attr->domain = nullptr;
  const std::uint64_t order = reported_order(core, r, mr_mode, hmem);
  fill_tx(*info->tx_attr, r.hints, info->caps, order);
  fill_rx(*info->rx_attr, r, info->caps, order);
  fill_ep(*info->ep_attr, r.hints, order);
  fill_domain(*info->domain_attr, r, mr_mode);
  name_provider(*info, r.layered);
  info->fabric_attr->prov_version = base::provider().version;
  info->fabric_attr->api_version = r.version;
  return info;
}

/// Whether this entry would keep that order; the log says so if not.
bool keeps_order(const fi_info& core, const info_request& r, bool hmem, int mr_mode) {
  const std::uint64_t asked = asked_order(r.hints);
  const std::uint64_t kept = offer::granted_order(core.tx_attr->msg_order, mr_mode, hmem);
  const fi_ep_attr* ep = r.hints ? r.hints->ep_attr : nullptr;
  const bool sizes_fit = !ep || ((ep->max_order_raw_size == 0 || (kept & FI_ORDER_RMA_RAW)) &&
                                 (ep->max_order_waw_size == 0 || (kept & FI_ORDER_RMA_WAW)));
  if ((asked & ~kept) == 0 && sizes_fit) return true;
  GAUDI_INFO(
      CORE,
      "hints ask for msg_order 0x%llx; kept is 0x%llx with this mr_mode (RMA is ordered with "
      "FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY, and without FI_HMEM)\n",
      static_cast<unsigned long long>(asked), static_cast<unsigned long long>(kept));
  return false;
}

/// One of our entries for each of the core's, put behind `tail`. Returns the new tail.
base::result<fi_info**> append(fi_info** tail, const fi_info& core, const info_request& r,
                               bool hmem, int mr_mode) {
  for (const fi_info* c = &core; c; c = c->next) {
    auto info = build(*c, r, hmem, mr_mode);
    if (!info) return base::error{-FI_ENOMEM};
    *tail = info.release();
    tail = &(*tail)->next;
  }
  return tail;
}

/// Entries with FI_HMEM follow the plain ones only where the application leaves the choice to us.
bool leaves_hmem_open(const fi_info* hints) {
  if (!hints) return true;
  return hints->caps == 0 && hints->domain_attr && (hints->domain_attr->mr_mode & FI_MR_HMEM);
}

/// HCL leaves its working path through host memory for any provider with FI_HMEM, and registers the
/// device's only over verbs.
bool withholds_hmem(const fi_info& core, const info_request& r) {
  if (!r.layered || r.params().tcp_hmem || core.ep_attr->protocol != FI_PROTO_SOCK_TCP)
    return false;
  GAUDI_INFO(CORE,
             "no FI_HMEM over tcp under the name ofi_gaudi: set FI_GAUDI_TCP_HMEM=on if the "
             "application shall use device memory there\n");
  return true;
}

void warn_no_device() {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  GAUDI_WARN(
      CORE,
      "FI_HMEM was asked for, but no Gaudi is present: libhl-thunk is not found (set "
      "FI_GAUDI_HLTHUNK) or lists no device (see `hl-smi`, and that the habanalabs driver is "
      "loaded); leave FI_HMEM out of the hints to use host memory only\n");
}

/// A name with a device in it is that of an entry with FI_HMEM.
bool hints_name_device(const fi_info* hints) {
  return hints && hints->domain_attr && hints->domain_attr->name &&
         names_device(hints->domain_attr->name);
}

bool adds_hmem(const fi_info& core, const info_request& r) {
  return leaves_hmem_open(r.hints) && !withholds_hmem(core, r) && device_expected(r.params()) &&
         device_present(r.context);
}

/// The answer for one core list: plain entries, FI_HMEM entries, or both.
base::result<core::unique_info> answer(const fi_info& core, const info_request& r) {
  const bool only_hmem = asks_hmem(r.hints);
  if (only_hmem && withholds_hmem(core, r)) return base::error{-FI_ENODATA};
  if (only_hmem && !device_present(r.context)) {
    warn_no_device();
    return base::error{-FI_ENODATA};
  }
  fi_info* head = nullptr;
  fi_info** tail = &head;
  core::unique_info list;
  int failure = -FI_ENODATA;
  const bool only_named = hints_name_device(r.hints);
  for (const bool hmem : {false, true}) {
    if (hmem ? !only_hmem && !adds_hmem(core, r) : only_hmem || only_named) continue;
    const auto mode = offer::granted_mr_mode(r.version, r.hints, hmem, hmem || r.layered);
    if (!mode || !keeps_order(core, r, hmem, *mode)) continue;
    const auto next = append(tail, core, r, hmem, *mode);
    if (!next) {
      failure = next.code();
      break;
    }
    tail = *next;
    failure = 0;
  }
  list.reset(head);
  if (failure) return base::error{failure};
  return list;
}

core::query query_for(const fi_info* hints, const base::params& params, domain_naming naming) {
  core::query q;
  q.core = params.core;
  q.rdma_present = !topo::rdma_devices().empty();
  if (!hints) return q;
  q.addr_format = hints->addr_format;
  q.src_addr = bytes_of(hints->src_addr, hints->src_addrlen);
  q.dest_addr = bytes_of(hints->dest_addr, hints->dest_addrlen);
  if (hints->fabric_attr && hints->fabric_attr->name) q.fabric_name = hints->fabric_attr->name;
  if (hints->domain_attr && hints->domain_attr->name) {
    q.domain_name = core_domain_name(hints->domain_attr->name, naming);
  }
  return q;
}

}  // namespace

base::result<core::unique_info> list_rdm(const info_request& r) {
  if (r.hints) {
    const auto fits = offer::check(*r.hints, r.params().unexpected_limit);
    if (!fits) return fits.failure();
  }
  auto q = query_for(r.hints, r.params(), r.naming());
  q.node = r.node;
  q.service = r.service;
  q.flags = r.flags;
  q.nics = r.params().nics;
  auto core = core::get_info(q);
  if (!core) return core.failure();
  const auto ordered = in_order(*std::move(core), order_in_use(r.context));
  add_pci_addresses(ordered.get());
  return answer(*ordered, r);
}

base::result<core::unique_info> core_info_for(const fi_info& info, const base::params& params) {
  auto q = query_for(&info, params, naming_of(info));
  if (q.domain_name.empty()) return base::error{-FI_ENODATA};
  auto found = core::get_info(q);
  if (!found) return found;
  fi_freeinfo(std::exchange((*found)->next, nullptr));
  return found;
}

}  // namespace gaudi::fi
