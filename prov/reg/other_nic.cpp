// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/other_nic.hpp"

#include <algorithm>
#include <utility>

namespace gaudi::reg {
namespace {

std::uint64_t access_for(const region& r, other_nic::purpose what) noexcept {
  if (!r.on_device()) return r.access;
  return what == other_nic::purpose::key ? r.remote_access() : r.transfer_access;
}

}  // namespace

const core::inner_mr* other_nic::registration_of(const region& r, purpose what) {
  if (r.imported || (r.owner && r.owner->lost() != 0)) return nullptr;
  const std::uint64_t access = access_for(r, what);
  if (!r.at_other_nics) r.at_other_nics = std::make_unique<std::vector<region::at_nic>>();
  auto& known = *r.at_other_nics;
  const auto found = std::find_if(known.begin(), known.end(), [&](const region::at_nic& one) {
    return one.nic == number_ && one.access == access;
  });
  if (found != known.end()) return found->mr();
  known.reserve(known.size() + 1);
  region::at_nic made = make(r, what, access);
  if (!made.mr()) return nullptr;
  known.push_back(std::move(made));
  return known.back().mr();
}

region::at_nic other_nic::make(const region& r, purpose what, std::uint64_t access) {
  region::at_nic made{.nic = number_, .access = access, .host = {}, .device = {}};
  if (!r.on_device()) {
    auto mr = core_->register_memory(reinterpret_cast<void*>(r.address), r.length, access);
    if (mr) made.host = *std::move(mr);
    return made;
  }
  // What its own NIC could not be given is staged.
  const registration& own =
      what == purpose::key && !r.key_names_transfers() ? r.by_key : r.transfers;
  const auto where = r.owner->find(r.address, r.length);
  if (!own || !where) return made;
  auto obtained = dmabufs_.obtain(*r.owner, *where, r.length, access);
  if (obtained) made.device = *std::move(obtained);
  return made;
}

}  // namespace gaudi::reg
