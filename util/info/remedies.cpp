// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "remedies.hpp"

#include <fmt/format.h>

namespace gaudi::info {

std::vector<std::string> commands_for(cause what, const std::string& name) {
  switch (what) {
    case cause::none:
    case cause::no_right_to_device:
    case cause::no_right_to_nic:
      return {};
    case cause::no_library:
      return {"sudo apt install habanalabs-thunk",
              "find / -name 'libhl-thunk.so*' 2>/dev/null    # for FI_GAUDI_HLTHUNK"};
    case cause::no_device:
      return {"sudo modprobe habanalabs && hl-smi", "sudo dmesg | grep -i habana"};
    case cause::device_busy:
      return {name.empty() ? "sudo fuser -v /dev/accel/accel*" : "ps -fp " + name};
    case cause::device_in_reset:
    case cause::device_fails:
    case cause::registration:
      return {"sudo dmesg | grep -i -e habana -e mlx5 -e dma-buf"};
    case cause::no_rdma_device:
      return {"rdma link; lspci -nn | grep -i -e infiniband -e ethernet"};
    case cause::nic_not_offered:
      return {"rdma link; ip -br addr", "FI_PROVIDER=verbs FI_LOG_LEVEL=info fi_info -p verbs"};
    case cause::bad_parameter:
      return {"unset " + name};
    case cause::provider_not_found:
      return {"unset FI_PROVIDER",
              "find / -name libgaudi-fi.so 2>/dev/null    # its folder for FI_PROVIDER_PATH"};
    case cause::old_libfabric:
      return {"fi_info --version"};
    case cause::no_kernel_support:
      return {"unset FI_VERBS_USE_DMABUF", "sudo modprobe -a ib_core ib_uverbs",
              "sudo grep ib_umem_dmabuf_get /proc/kallsyms"};
    case cause::nic_driver:
      return {"ibv_devinfo; modinfo -F version mlx5_core"};
    case cause::peer_to_peer:
      return {"lspci -tv", "sudo gaudi_info --doctor    # root sees ACS"};
    case cause::small_bar:
      return {fmt::format("sudo lspci -vv -s {} | grep -i -e region -e resizable", name)};
    case cause::descriptors:
      return {"ulimit -n $(ulimit -Hn)"};
    case cause::locked_memory:
      return {"ulimit -l $(ulimit -Hl)"};
    case cause::no_export:
      return {"uname -r; modinfo -F version habanalabs"};
  }
  return {};
}

}  // namespace gaudi::info
