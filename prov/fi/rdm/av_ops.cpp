// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/av_ops.hpp"

#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {
namespace {

int close(fid_t f) noexcept {
  const base::cancellation_deferred until_it_is_closed;
  if (av::of(f).used_after_fork()) return 0;
  std::unique_ptr<av> self(&av::of(f));
  if (!self->bound().any()) return 0;
  GAUDI_INFO(AV, "address vector stays open: close its endpoints first\n");
  static_cast<void>(self.release());
  return -FI_EBUSY;
}

int bind(fid_t f, fid_t other, std::uint64_t flags) noexcept {
  if (flags != 0) return -FI_EBADFLAGS;
  return av::of(f).bind_event_queue(other);
}

int insert(fid_av* a, const void* addr, std::size_t count, fi_addr_t* fi_addr, std::uint64_t flags,
           void* context) noexcept {
  return guarded_int([&] { return av::of(a).insert(addr, count, fi_addr, flags, context); });
}

int insertsvc(fid_av* a, const char* node, const char* service, fi_addr_t* fi_addr,
              std::uint64_t flags, void* context) noexcept {
  return guarded_int(
      [&] { return av::of(a).insert_service(node, service, fi_addr, flags, context); });
}

int insertsym(fid_av* a, const char* node, std::size_t nodecnt, const char* service,
              std::size_t svccnt, fi_addr_t* fi_addr, std::uint64_t flags, void* context) noexcept {
  return guarded_int([&] {
    return av::of(a).insert_symmetric(node, nodecnt, service, svccnt, fi_addr, flags, context);
  });
}

int remove(fid_av* a, fi_addr_t* fi_addr, std::size_t count, std::uint64_t flags) noexcept {
  if (flags != 0) return -FI_EBADFLAGS;
  return av::of(a).remove(std::span(fi_addr, count));
}

int lookup(fid_av* a, fi_addr_t fi_addr, void* addr, std::size_t* length) noexcept {
  return av::of(a).lookup(fi_addr, addr, length);
}

const char* straddr(fid_av* a, const void* addr, char* buf, std::size_t* length) noexcept {
  static_cast<void>(guarded_int([&] {
    const auto text = av::of(a).read(addr).to_string();
    if (buf && *length != 0) std::snprintf(buf, *length, "%s", text.c_str());
    *length = std::strlen(text.c_str()) + 1;
    return 0;
  }));
  return buf;
}

// What the headers of 1.20 and later have behind av_set is padded's.
constexpr fi_ops_av table() noexcept {
  fi_ops_av ops{};
  ops.size = sizeof ops;
  ops.insert = in_own_process<av, insert>;
  ops.insertsvc = in_own_process<av, insertsvc>;
  ops.insertsym = in_own_process<av, insertsym>;
  ops.remove = in_own_process<av, remove>;
  ops.lookup = in_own_process<av, lookup>;
  ops.straddr = straddr;
  ops.av_set = not_supported;
  return ops;
}

constexpr std::uint64_t open_flags = FI_EVENT | FI_SYMMETRIC;

int check_attr(const fi_av_attr& attr) {
  if (attr.name) {
    GAUDI_INFO(AV, "named address vectors are not offered (asked for \"%s\")\n", attr.name);
    return -FI_ENOSYS;
  }
  if (attr.rx_ctx_bits != 0) return -FI_ENOSYS;
  if (attr.flags & ~open_flags) return -FI_EBADFLAGS;
  const bool known =
      attr.type == FI_AV_UNSPEC || attr.type == FI_AV_MAP || attr.type == FI_AV_TABLE;
  return known ? 0 : -FI_EINVAL;
}

fi_ops av_fid_ops{.size = sizeof(fi_ops),
                  .close = close,
                  .bind = in_own_process<av, bind>,
                  .control = not_supported,
                  .ops_open = not_supported,
                  .tostr = not_supported,
                  .ops_set = not_supported};

padded<fi_ops_av> av_ops{table()};

}  // namespace

int av_open(const av_parent& parent, fi_av_attr* attr, fid_av** out, void* context) noexcept {
  if (!attr) return -FI_EINVAL;
  if (const int ret = check_attr(*attr)) return ret;
  auto* opened = new (std::nothrow)
      av({.fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops}, .ops = &av_ops},
         parent, *attr);
  if (!opened) return -FI_ENOMEM;
  if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  *out = opened;
  return 0;
}

}  // namespace gaudi::fi
