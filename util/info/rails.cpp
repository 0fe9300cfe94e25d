// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string>
#include <utility>

#include "collect.hpp"
#include "core/get_info.hpp"
#include "fi/common/provider_context.hpp"
#include "fi/info/nic_order.hpp"
#include "fi/rdm/rail_interfaces.hpp"
#include "topo/kernel_class.hpp"

namespace gaudi::info {
namespace {

rails_fact rails_on(const std::string& nic, const fi_info* all,
                    const fi::provider_context& context) {
  rails_fact fact{.nic = nic, .rails = {}, .left_out = {}};
  while (nic != all->domain_attr->name) all = all->next;
  for (const fi::planned_rail& rail : fi::planned_rails(*all, context))
    (rail.is_there ? fact.rails : fact.left_out).push_back(rail.from);
  return fact;
}

}  // namespace

std::vector<rails_fact> collect_rails() {
  const auto context = fi::provider_context::of_process();
  const base::params& p = context.params;
  if (p.rails.count <= 1 && p.rails.interfaces.empty() && !p.rails.is_automatic) return {};
  auto found = core::get_info(
      {.nics = p.nics, .core = p.core, .rdma_present = !topo::rdma_devices().empty()});
  if (!found) return {};
  const core::unique_info all = fi::in_order(*std::move(found), fi::order_in_use(context));
  std::vector<rails_fact> facts;
  for (const std::string& nic : fi::nics_of(all.get()))
    facts.push_back(rails_on(nic, all.get(), context));
  return facts;
}

}  // namespace gaudi::info
