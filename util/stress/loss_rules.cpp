// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "loss_rules.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

bool is_loss_of_peer(int error) {
  return error == FI_ECONNRESET || error == FI_ECONNREFUSED || error == FI_ECONNABORTED ||
         error == FI_ETIMEDOUT;
}

bool is_loss_of_device(int error) {
  return error == FI_EIO || error == FI_ENODEV;
}

}  // namespace

void loss_rules::require_operation(std::size_t number, int error, const std::string& name) const {
  const planned& p = plan_.operations[number];
  if (!may_fail(p, p.target, error)) refuse(error, name);
}

void loss_rules::require_receive(std::size_t number, int error, const std::string& name) const {
  const planned& p = plan_.operations[number];
  if (!may_fail(p, p.initiator, error)) refuse(error, name);
}

void loss_rules::require_injected(int error) const {
  if (loses_worker() && is_loss_of_peer(error)) return;
  throw failure(fmt::format("ERROR: {}, of what was injected or of nothing (round {})",
                            fi_strerror(error), plan_.round));
}

void loss_rules::refuse(int error, const std::string& name) const {
  throw failure(
      fmt::format("ERROR: {}, of {}{}", fi_strerror(error), name,
                  loss_.kind == fault_kind::none
                      ? ""
                      : fmt::format(" after a {} of worker {}",
                                    nlohmann::json(loss_.kind).get<std::string>(), loss_.victim)));
}

bool loss_rules::may_fail(const planned& p, unsigned peer, int error) const {
  switch (loss_.kind) {
    case fault_kind::kill:
    case fault_kind::close:
      return peer == loss_.victim && is_loss_of_peer(error);
    case fault_kind::reset:
      return is_on_lost_device(p) && is_loss_of_device(error);
    default:
      return false;
  }
}

bool loss_rules::is_on_lost_device(const planned& p) const {
  return (p.initiator == loss_.victim && p.near.memory == memory_kind::device) ||
         (p.target == loss_.victim && p.far.memory == memory_kind::device);
}

void require_received(const round_plan& plan, std::size_t number, std::size_t length,
                      std::uint64_t data) {
  const planned& p = plan.operations[number];
  if (length != p.size)
    throw failure(
        fmt::format("WRONG DATA: {} bytes have come for {}", length, describe(plan, number)));
  if (has_data(p.op) && data != message_id(plan, number))
    throw failure(
        fmt::format("WRONG DATA: {:#x} as remote data of {}", data, describe(plan, number)));
}

}  // namespace gaudi::stress
