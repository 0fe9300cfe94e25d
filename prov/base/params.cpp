// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/params.hpp"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/log.hpp"
#include "base/number.hpp"
#include "base/unknown_variables.hpp"

namespace gaudi::base {
namespace {

template <class Choice>
struct named {
  std::string_view name;
  Choice value;
};

constexpr std::array<named<core_choice>, 3> core_names{{
    {"auto", core_choice::automatic},
    {"verbs", core_choice::verbs},
    {"tcp", core_choice::tcp},
}};
constexpr std::array<named<dmabuf_choice>, 3> dmabuf_names{{
    {"auto", dmabuf_choice::automatic},
    {"on", dmabuf_choice::on},
    {"off", dmabuf_choice::off},
}};
constexpr std::array<named<rendezvous_choice>, 4> rndv_names{{
    {"auto", rendezvous_choice::automatic},
    {"read", rendezvous_choice::read},
    {"write", rendezvous_choice::write},
    {"staged", rendezvous_choice::staged},
}};

constexpr std::array<named<flush_choice>, 4> flush_names{{
    {"auto", flush_choice::automatic},
    {"read", flush_choice::read},
    {"driver", flush_choice::driver},
    {"off", flush_choice::off},
}};

constexpr std::array<named<bool>, 2> switch_names{{
    {"off", false},
    {"on", true},
}};

constexpr std::array<named<ipc_choice>, 2> ipc_names{{
    {"auto", ipc_choice::automatic},
    {"off", ipc_choice::off},
}};

/// Reads one parameter after the other and remembers whether one was bad.
class reader {
 public:
  explicit reader(const params::lookup& text_of) : text_of_(text_of) {}

  [[nodiscard]] std::string text(param id) const {
    const auto& spec = spec_of(id);
    const char* given = text_of_(spec.name);
    return given ? given : spec.default_text;
  }

  [[nodiscard]] std::uint64_t number(param id, const char* or_else = "") {
    const auto& spec = spec_of(id);
    const auto value = parse_number(text(id));
    if (value && *value >= spec.min && *value <= spec.max) return *value;
    refuse(id, or_else + std::string("a number from ") + std::to_string(spec.min) + " to " +
                   std::to_string(spec.max) + ", suffixes K, M and G allowed");
    return spec.min;
  }

  /// A number, or 0 for "auto".
  [[nodiscard]] std::uint64_t number_or_auto(param id) {
    return text(id) == "auto" ? 0 : number(id, "auto or ");
  }

  /// Names with commas between them.
  [[nodiscard]] std::vector<std::string> names(param id) {
    std::vector<std::string> found;
    const std::string given = text(id);
    for (std::size_t at = 0; !given.empty() && at <= given.size();) {
      const std::size_t comma = std::min(given.find(',', at), given.size());
      found.push_back(given.substr(at, comma - at));
      at = comma + 1;
    }
    const auto bad = [](const std::string& name) {
      return name.empty() || name.find_first_of(" \t") != std::string::npos;
    };
    if (std::any_of(found.begin(), found.end(), bad))
      refuse(id, "names with a comma and no space between them");
    return found;
  }

  /// A number, names, or all.
  [[nodiscard]] rail_choice rails() {
    rail_choice chosen;
    chosen.is_automatic = text(param::rails) == "auto";
    if (chosen.is_automatic) {
      chosen.count = max_rails;
      return chosen;
    }
    const auto number = parse_number(text(param::rails));
    if (!number) chosen.interfaces = names(param::rails);
    chosen.count = number ? *number : chosen.interfaces.size();
    if (chosen.count < 1 || chosen.count > max_rails)
      refuse(param::rails, "a number from 1 to " + std::to_string(max_rails) +
                               ", or as many names of interfaces, or auto");
    return chosen;
  }

  template <class Choice, std::size_t Count>
  [[nodiscard]] Choice choice(param id, const std::array<named<Choice>, Count>& names) {
    const std::string given = text(id);
    std::string allowed;
    for (const auto& [name, value] : names) {
      if (given == name) return value;
      allowed += allowed.empty() ? "" : ", ";
      allowed += name;
    }
    refuse(id, "one of " + allowed);
    return names.front().value;
  }

  [[nodiscard]] copy_overrides copy_table() {
    const auto parsed = copy_overrides::parse(text(param::copy_table));
    if (!parsed)
      refuse(param::copy_table,
             "auto, off, or what is fixed as in \"h2d:pin=64K,split=1M,chunk=256K,nic=16K;"
             "d2h:pin=off;d2d:split=4M\", lengths from " +
                 std::to_string(copy_override::least) + " on");
    return parsed.value_or(copy_overrides{});
  }

  [[nodiscard]] bool good() const { return good_; }

 private:
  static const param_spec& spec_of(param id) { return param_table[static_cast<std::size_t>(id)]; }

  void refuse(param id, const std::string& allowed) {
    good_ = false;
    GAUDI_WARN(CORE, "%s=\"%s\" is not valid: give %s; the provider is not usable until then\n",
               variable_name(spec_of(id)).c_str(), text(id).c_str(), allowed.c_str());
  }

  const params::lookup& text_of_;
  bool good_ = true;
};

/// libfabric reads the environment and, from 2.x, its configuration file. The provider's parameters
/// are defined as strings because libfabric's own number parsing accepts any text as 0.
const char* text_from_libfabric(const char* name) {
  char* text = nullptr;
  return fi_param_get_str(&provider(), name, &text) == FI_SUCCESS ? text : nullptr;
}

}  // namespace

std::string variable_name(const param_spec& spec) {
  std::string name = "FI_GAUDI_";
  for (const char* c = spec.name; *c != '\0'; ++c) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return name;
}

result<params> params::parse(const lookup& text_of) {
  reader in(text_of);
  params p;
  p.core = in.choice(param::core, core_names);
  p.nics = in.names(param::nic);
  p.hlthunk = in.text(param::hlthunk);
  p.device = in.text(param::device);
  p.eager_size = in.number_or_auto(param::eager_size);
  p.staging_chunk = in.number(param::staging_chunk);
  p.staging_depth = in.number(param::staging_depth);
  p.rx_buffers = in.number(param::rx_buffers);
  p.unexpected_limit = in.number(param::unexpected_limit);
  p.limits.connect_timeout = std::chrono::seconds(in.number(param::connect_timeout));
  p.limits.reconnect_timeout = std::chrono::seconds(in.number(param::reconnect_timeout));
  p.limits.link_timeout = std::chrono::milliseconds(in.number(param::link_timeout));
  p.limits.most = in.number(param::max_connections);
  p.rails = in.rails();
  p.rails.chunk = in.number(param::rail_chunk);
  p.device_timeout = std::chrono::seconds(in.number(param::device_timeout));
  p.copy_timeout = std::chrono::seconds(in.number(param::copy_timeout));
  p.copy_table = in.copy_table();
  p.dmabuf = in.choice(param::dmabuf, dmabuf_names);
  p.rndv = in.choice(param::rndv, rndv_names);
  p.flush = in.choice(param::flush, flush_names);
  p.ipc = in.choice(param::ipc, ipc_names);
  p.mr_cache.max_count = in.number(param::mr_cache_max_count);
  p.mr_cache.max_size = in.number(param::mr_cache_max_size);
  p.mr_cache.imported = in.choice(param::mr_cache_imported, switch_names);
  p.mr_cache.window = in.number(param::mr_window);
  p.tcp_hmem = in.choice(param::tcp_hmem, switch_names);
  p.counters = in.choice(param::counters, switch_names);
  if (!in.good()) return error{-FI_EINVAL};
  return p;
}

const result<params>& params::parsed() {
  static const result<params> once = [] {
    warn_of_unknown_variables();
    return parse(text_from_libfabric);
  }();
  return once;
}

const params& params::get() {
  static const result<params> defaults = parse([](const char*) { return nullptr; });
  return parsed() ? *parsed() : *defaults;
}

void define_params() {
  for (const auto& spec : param_table) {
    fi_param_define(&provider(), spec.name, FI_PARAM_STRING, "%s (default: %s)", spec.help,
                    *spec.default_text ? spec.default_text : "empty");
  }
}

}  // namespace gaudi::base
