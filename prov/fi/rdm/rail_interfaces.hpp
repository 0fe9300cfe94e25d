// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/counters_page.hpp"
#include "core/inner_domain.hpp"
#include "fi/common/provider_context.hpp"
#include "proto/session/rail_settings.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::fi {

/// NICs beside a domain's own.
using rail_nics = std::vector<std::unique_ptr<reg::other_nic>>;

/// What FI_GAUDI_RAILS says to the endpoints of a domain: the first rail is the NIC, or interface,
/// that the domain is of. Over verbs those behind it are other RDMA devices, each with a core
/// domain of its own; over tcp they need none. One that is named and does not exist, or has no
/// address like the domain's, is left out after a warning.
class domain_rails {
 public:
  /// Throws std::bad_alloc.
  domain_rails(const core::inner_domain& own, const provider_context& context);

  /// For as long as this lives.
  [[nodiscard]] const proto::rail_settings& settings() const noexcept { return settings_; }

 private:
  const rail_nics nics_;
  std::deque<base::counters::published<proto::rail_counters>> counters_;
  proto::rail_settings settings_;
};

/// A rail as FI_GAUDI_RAILS says it, by what is known without opening a NIC.
struct planned_rail {
  std::string from;      ///< interface or NIC that it would leave from
  bool is_there = true;  ///< false: left out, without an address like the first rail's
};

/// Those of endpoints whose core domain is that of `own`, one of the core's FI_EP_MSG infos: its
/// own first.
std::vector<planned_rail> planned_rails(const fi_info& own, const provider_context& context);

}  // namespace gaudi::fi
