// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/per_process.hpp"
#include "hl/or_no_memory.hpp"
#include "hl/resolver.hpp"
#include "hl/synapse.hpp"

namespace gaudi::hl {
namespace {

using base::error;
using base::result;

/// A handle that keeps the library loaded, or null where the process has not loaded it.
void* loaded(const char* name) {
  return dlopen(name, RTLD_NOW | RTLD_NOLOAD);
}

const char* resolve_synapse(void* library, synapse_functions& table) {
  resolver find(library);
  find.required(table.device_get_info, "synDeviceGetInfo");
  find.required(table.host_map, "synHostMap");
  find.required(table.host_unmap, "synHostUnmap");
  find.required(table.stream_create, "synStreamCreateGeneric");
  find.required(table.stream_destroy, "synStreamDestroy");
  find.required(table.event_create, "synEventCreate");
  find.required(table.event_destroy, "synEventDestroy");
  find.required(table.event_record, "synEventRecord");
  find.required(table.event_query, "synEventQuery");
  find.required(table.copy_async, "synMemCopyAsync");
  return find.missing();
}

const char* resolve_scal(void* library, synapse_functions& table) {
  if (library == nullptr) return "libscal.so beside it";
  resolver find(library);
  find.required(table.scal_get_handle_from_fd, "scal_get_handle_from_fd");
  find.required(table.scal_get_pool_handle_by_name, "scal_get_pool_handle_by_name");
  find.required(table.scal_pool_get_info, "scal_pool_get_infoV2");
  return find.missing();
}

/// Looks until it has been found, since the application may load it at any time; what was found
/// stays, useful or not.
class finder {
 public:
  result<std::shared_ptr<const synapse>> find() {
    const base::scoped_lock lock(mutex_);
    if (found_) return found_;
    if (failure_ != 0) return error{failure_};
    void* const library = loaded("libSynapse.so");
    if (library == nullptr) return error{-FI_ENOSYS};
    synapse_functions table;
    const char* missing = resolve_synapse(library, table);
    if (missing == nullptr) missing = resolve_scal(loaded("libscal.so"), table);
    if (missing != nullptr) return refuse(missing);
    found_ = std::make_shared<const synapse>(table);
    return found_;
  }

 private:
  error refuse(const char* missing) GAUDI_REQUIRES(mutex_) {
    GAUDI_WARN(CORE,
               "this process uses libSynapse, which has no %s, so its device memory cannot be "
               "used. Install a newer Habana SynapseAI.\n",
               missing);
    failure_ = -FI_EOPNOTSUPP;
    return error{failure_};
  }

  base::mutex mutex_;
  std::shared_ptr<const synapse> found_ GAUDI_GUARDED_BY(mutex_);
  int failure_ GAUDI_GUARDED_BY(mutex_) = 0;
};

}  // namespace

result<std::shared_ptr<const synapse>> synapse::find() {
  return or_no_memory([] { return base::per_process<finder>::get().find(); });
}

}  // namespace gaudi::hl
