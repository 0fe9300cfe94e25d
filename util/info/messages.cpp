// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "messages.hpp"

#include <optional>

namespace gaudi::info {
namespace {

using base::dmabuf_choice;
using base::rendezvous_choice;

struct memory_kind {
  std::string name;
  bool on_device = false;
  bool is_reached = true;  // by the core
  bool copies = true;
};

/// Nothing: it was not tried, as no Gaudi is without --doctor, or another process has it.
std::optional<bool> is_reached(const report& r, std::size_t device, const base::params& params) {
  if (r.software.core != "verbs" || params.dmabuf == dmabuf_choice::off) return false;
  std::optional<bool> reached;
  for (const probe_fact& p : r.probes)
    if (p.device == device) reached = p.zero_copy || reached.value_or(false);
  return reached;
}

/// Without those of which nothing is known.
std::vector<memory_kind> kinds(const report& r, const base::params& params) {
  memory_kind some{"Gaudi Z", true, true, true};
  memory_kind others{"Gaudi S", true, false, true};
  bool has_some = false;
  bool has_others = false;
  for (std::size_t i = 0; i < r.devices.size(); ++i) {
    const auto reached = is_reached(r, i, params);
    if (!reached) continue;
    (*reached ? has_some : has_others) = true;
    memory_kind& kind = *reached ? some : others;
    kind.copies = kind.copies && r.devices[i].copies;
  }
  if (has_some != has_others) some.name = others.name = "Gaudi";
  std::vector<memory_kind> found{{"host", false, true, true}};
  if (has_some) found.push_back(some);
  if (has_others) found.push_back(others);
  return found;
}

proto::path_choice choice_between(const memory_kind& from, const memory_kind& to, const report& r,
                                  const base::params& params) {
  const bool writes = proto::asks_to_write(params.rndv, from.on_device, from.is_reached);
  proto::path_facts facts;
  facts.offer = writes ? proto::source_offer::nothing : proto::source_offer::keys;
  facts.core_reads_badly = !r.software.core_reads;
  facts.sink_on_device = to.on_device;
  facts.sink_is_reached = to.on_device && to.is_reached;
  facts.staging_is_chosen = params.rndv == rendezvous_choice::staged;
  return proto::choose_path(facts);
}

/// Neither a NIC nor an engine gets at its bytes.
bool is_out_of_reach(const memory_kind& kind, const base::params& params) {
  const bool staged = params.rndv == rendezvous_choice::staged;
  return kind.on_device && !kind.copies && (staged || !kind.is_reached);
}

}  // namespace

std::vector<message_fact> expected_messages(const report& r, const base::params& params) {
  const auto all = kinds(r, params);
  if (r.software.core.empty() || all.size() == 1) return {};
  std::vector<message_fact> found;
  for (const memory_kind& from : all)
    for (const memory_kind& to : all)
      if (!is_out_of_reach(from, params) && !is_out_of_reach(to, params))
        found.push_back({from.name, to.name, choice_between(from, to, r, params)});
  return found;
}

const char* way_text(proto::transfer_path path) noexcept {
  switch (path) {
    case proto::transfer_path::read:
      return "read by the receiver";
    case proto::transfer_path::write:
      return "written by the sender";
    case proto::transfer_path::slots:
      return "through staging buffers";
    default:
      return "-";
  }
}

}  // namespace gaudi::info
