// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/av.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "fi/rdm/av_resolve.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t insert_flags = FI_MORE | FI_SYNC_ERR;

/// More would not fit into memory anyway; keeps a nonsensical hint from an allocation.
constexpr std::size_t reserve_limit = std::size_t{1} << 20;

}  // namespace

av::av(const fid_av& own, const av_parent& parent, const fi_av_attr& attr) noexcept
    : fid_av(own),
      parent_(parent.open_children),
      lock_(parent.lock),
      addr_format_(parent.addr_format),
      flags_(attr.flags) {
  addresses_.reserve(std::min(attr.count, reserve_limit));
}

int av::bind_event_queue(fid_t eq) {
  if (eq->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  if (!asynchronous()) return -FI_EINVAL;
  if (eq_) return -FI_EBUSY;
  eq_ = &event_queue::of(eq);
  eq_ref_ = child_count::ref(eq_->bound());
  return 0;
}

proto::net_address av::read(const void* addr) const noexcept {
  sockaddr head{};
  std::memcpy(&head, addr, sizeof(head.sa_family));
  const proto::net_address address(
      addr, head.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  const bool in_format = (addr_format_ != FI_SOCKADDR_IN || head.sa_family == AF_INET) &&
                         (addr_format_ != FI_SOCKADDR_IN6 || head.sa_family == AF_INET6);
  return in_format ? address : proto::net_address();
}

int av::check_insert(std::uint64_t flags, const void* context) const {
  if (flags & ~insert_flags) return -FI_EBADFLAGS;
  if (asynchronous()) {
    if (!eq_) return -FI_ENOEQ;
    return (flags & FI_SYNC_ERR) ? -FI_EBADFLAGS : 0;
  }
  return (flags & FI_SYNC_ERR) && !context ? -FI_EINVAL : 0;
}

int av::insert(const void* addr, std::size_t count, fi_addr_t* fi_addr, std::uint64_t flags,
               void* context) {
  if (const int ret = check_insert(flags, context)) return ret;
  if (!addr && count != 0) return -FI_EINVAL;
  std::vector<proto::net_address> addresses;
  addresses.reserve(count);
  const auto* at = static_cast<const std::byte*>(addr);
  for (std::size_t i = 0; i < count; ++i) {
    addresses.push_back(read(at));
    // FI_SOCKADDR leaves the stride to the family; an address of the wrong family is as long as the
    // right one.
    const bool long_form =
        addr_format_ == FI_SOCKADDR_IN6 ||
        (addr_format_ != FI_SOCKADDR_IN && addresses.back().raw()->sa_family == AF_INET6);
    at += long_form ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  return insert_all(addresses, fi_addr, flags, context);
}

int av::insert_service(const char* node, const char* service, fi_addr_t* fi_addr,
                       std::uint64_t flags, void* context) {
  if (const int ret = check_insert(flags, context)) return ret;
  const auto address = resolve(node, service, addr_format_);
  if (!address && address.code() == -FI_EINVAL) return address.code();
  const proto::net_address resolved = address ? *address : proto::net_address();
  return insert_all(std::span(&resolved, 1), fi_addr, flags, context);
}

int av::insert_symmetric(const char* node, std::size_t nodecnt, const char* service,
                         std::size_t svccnt, fi_addr_t* fi_addr, std::uint64_t flags,
                         void* context) {
  if (const int ret = check_insert(flags, context)) return ret;
  const auto addresses = resolve_symmetric(node, nodecnt, service, svccnt, addr_format_);
  if (!addresses) return addresses.code();
  return insert_all(*addresses, fi_addr, flags, context);
}

int av::insert_all(std::span<const proto::net_address> addresses, fi_addr_t* fi_addr,
                   std::uint64_t flags, void* context) {
  int* const errors = (flags & FI_SYNC_ERR) ? static_cast<int*>(context) : nullptr;
  // Taken before anything is inserted: whoever waits for the events of an insertion has nothing
  // else to go by.
  std::optional<event_queue::reserved_events> events;
  if (asynchronous()) events.emplace(addresses.size() + 1);
  int inserted = 0;
  {
    const base::scoped_domain_lock lock(lock_);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const bool usable = !addresses[i].empty() && addresses[i].is_destination();
      const auto index = usable ? addresses_.add(addresses[i])
                                : base::result<fi_addr_t>(base::error{-FI_EADDRNOTAVAIL});
      if (fi_addr) fi_addr[i] = index ? *index : FI_ADDR_NOTAVAIL;
      if (errors) errors[i] = -index.code();
      if (index) {
        ++inserted;
      } else {
        GAUDI_INFO(AV, "address %zu (%s) is not inserted: %s\n", i,
                   addresses[i].to_string().c_str(), fi_strerror(-index.code()));
        if (events) report_error(context, i, -index.code(), *events);
      }
    }
  }
  if (!events) return inserted;
  const fi_eq_entry done{
      .fid = &fid, .context = context, .data = static_cast<std::uint64_t>(inserted)};
  return eq_->post(FI_AV_COMPLETE, done, *events);
}

void av::report_error(void* context, std::size_t index, int err,
                      event_queue::reserved_events& events) {
  const fi_eq_err_entry entry{.fid = &fid,
                              .context = context,
                              .data = index,
                              .err = err,
                              .prov_errno = err,
                              .err_data = nullptr,
                              .err_data_size = 0};
  // An overrun has been warned about and is itself an error in the queue.
  static_cast<void>(eq_->post_error(entry, events));
}

int av::remove(std::span<const fi_addr_t> fi_addr) {
  const base::scoped_domain_lock lock(lock_);
  int ret = 0;
  // Last inserted first: indices are given out lowest first, so removal in this order keeps the
  // vector dense.
  for (auto index = fi_addr.rbegin(); index != fi_addr.rend(); ++index) {
    const auto removed = addresses_.remove(*index);
    if (!removed) ret = removed.code();
  }
  return ret;
}

int av::lookup(fi_addr_t fi_addr, void* addr, std::size_t* length) {
  const base::scoped_domain_lock lock(lock_);
  const auto* found = addresses_.find(fi_addr);
  if (!found) return -FI_EINVAL;
  std::memcpy(addr, found->raw(), std::min(*length, found->length()));
  *length = found->length();
  return 0;
}

}  // namespace gaudi::fi
