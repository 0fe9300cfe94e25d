// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint_options.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_gaudi.h>

#include "base/log.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/rdm/endpoint.hpp"
#include "fi/rdm/option_value.hpp"

namespace gaudi::fi {
namespace {

// Options that libfabric 1.17's header does not name yet; <rdma/fi_endpoint.h> of 2.x.
enum newer_option : int {
  cuda_api_permitted = 10,       // bool, since 1.19
  shared_memory_permitted = 11,  // bool, since 1.19
  max_msg_size = 12,             // size_t, this and those below since 1.22
  max_tagged_size = 13,
  max_rma_size = 14,
  inject_msg_size = 16,
  inject_tagged_size = 17,
  inject_rma_size = 18,
};

int get(endpoint& e, int name, void* out, std::size_t* length) GAUDI_REQUIRES(e.parent().lock()) {
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
      return give_option(e.receives().min_multi_recv(), out, length);
    case max_msg_size:
    case max_tagged_size:
    case max_rma_size:
      return give_option(offer::max_msg_size, out, length);
    case inject_msg_size:
    case inject_tagged_size:
    case inject_rma_size:
      return give_option(offer::inject_size, out, length);
    case FI_OPT_GAUDI_LINK_EVENTS:
      return give_option(static_cast<int>(e.links().wanted()), out, length);
    default:
      return -FI_ENOPROTOOPT;
  }
}

/// What is permitted is used if FI_GAUDI_IPC says so. An endpoint cannot do without what is in use
/// for the whole process: who needs that hears of it, since for some it is a matter of correctness.
int permit_shared_memory(const base::params& params, const void* in, std::size_t length) {
  bool permitted = false;
  if (const int ret = take_option(permitted, in, length)) return ret;
  if (permitted || params.ipc == base::ipc_choice::off) return 0;
  GAUDI_INFO(EP_CTRL,
             "FI_OPT_SHARED_MEMORY_PERMITTED=false is refused: set FI_GAUDI_IPC=off instead\n");
  return -FI_EOPNOTSUPP;
}

int set(endpoint& e, int name, const void* in, std::size_t length)
    GAUDI_REQUIRES(e.parent().lock()) {
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV: {
      std::size_t least = 0;
      if (const int ret = take_option(least, in, length)) return ret;
      e.receives().set_min_multi_recv(least);
      return 0;
    }
    case cuda_api_permitted: {
      // It is not used, so either answer is kept to.
      bool permitted = false;
      return take_option(permitted, in, length);
    }
    case shared_memory_permitted:
      return permit_shared_memory(e.parent().context().params, in, length);
    case FI_OPT_GAUDI_LINK_EVENTS: {
      int wanted = 0;
      if (const int ret = take_option(wanted, in, length)) return ret;
      e.links().want(wanted != 0);
      return 0;
    }
    default:
      return -FI_ENOPROTOOPT;
  }
}

}  // namespace

int endpoint_getopt(fid_t f, int level, int name, void* out, std::size_t* length) noexcept {
  return guarded_int([&]() -> int {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (!out || !length) return -FI_EINVAL;
    endpoint& e = endpoint::of(f);
    if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(e.lock());
    return get(e, name, out, length);
  });
}

int endpoint_setopt(fid_t f, int level, int name, const void* in, std::size_t length) noexcept {
  return guarded_int([&]() -> int {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (!in) return -FI_EINVAL;
    endpoint& e = endpoint::of(f);
    if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
    const base::scoped_domain_lock lock(e.lock());
    return set(e, name, in, length);
  });
}

}  // namespace gaudi::fi
