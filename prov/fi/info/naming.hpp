// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

namespace gaudi::fi {

/// How domains are called. Under the name "gaudi" they have a prefix before the core's name; under
/// a layered name ("tcp;ofi_gaudi") they have the core's name, because consumers that take only
/// such providers choose interfaces by their names (HCL: HCCL_SOCKET_IFNAME).
enum class domain_naming { prefixed, cores };

inline constexpr std::string_view domain_prefix = "gaudi-";

/// Behind the core's, in an entry with FI_HMEM, is what device memory is used there:
/// "gaudi-mlx5_0@gaudi0". Only to be read: FI_GAUDI_DEVICE is what chooses.
inline constexpr char device_mark = '@';

/// Whether the name is one of an entry with FI_HMEM.
inline bool names_device(std::string_view name) {
  return name.starts_with(domain_prefix) && name.find(device_mark) != std::string_view::npos;
}

/// Of an info that this provider gave. Without a provider's name it is prefixed, as libfabric fills
/// in that of a provider that is no layer.
inline domain_naming naming_of(const fi_info& info) {
  const char* name = info.fabric_attr ? info.fabric_attr->prov_name : nullptr;
  const bool is_layered = name && std::strcmp(name, "gaudi") != 0;
  return is_layered ? domain_naming::cores : domain_naming::prefixed;
}

/// Our name of the core's domain: "gaudi-" + "eth0", or "eth0".
inline std::string domain_name(std::string_view core, domain_naming naming) {
  return std::string(naming == domain_naming::prefixed ? domain_prefix : "").append(core);
}

/// The core's domain name under one of ours; empty when it is none.
inline std::string_view core_domain_name(std::string_view name, domain_naming naming) {
  if (naming == domain_naming::cores) return name;
  if (!name.starts_with(domain_prefix)) return {};
  const std::string_view inner = name.substr(domain_prefix.size());
  return inner.substr(0, inner.rfind(device_mark));
}

/// Replaces a text of a fi_info, which fi_freeinfo frees with free(). Throws std::bad_alloc, and
/// then the text is as it was.
inline void replace(char*& text, const std::string& value) {
  char* const copy = ::strdup(value.c_str());
  if (!copy) throw std::bad_alloc();
  std::free(text);
  text = copy;
}

/// What stands before our name in a layered provider's name: the core's name. Where FI_PROVIDER
/// (`filter`, may be null) lists the bare "ofi_gaudi", "ofi_gaudi;" comes before that. Libfabric
/// keeps an entry if its whole name or what is before a semicolon in it is listed, so a bare name
/// would drop "tcp;ofi_gaudi".
std::string layered_name(std::string_view core, const char* filter);

/// Replaces the core's name in one of its infos by what libfabric is to complete: nothing, or with
/// `layered` layered_name(). Not while libfabric initialises itself.
void name_provider(fi_info& info, bool layered);

}  // namespace gaudi::fi
