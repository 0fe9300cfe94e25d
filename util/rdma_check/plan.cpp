// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plan.hpp"

#include <algorithm>
#include <array>

#include "common/sizes.hpp"
#include "failure.hpp"

namespace gaudi::rdma_check {
namespace {

using common::mib;
constexpr std::size_t largest = std::size_t{1} << 30;  // that every NIC sends as one message

// Bytes that one measurement moves, and that the slots of one buffer may fill, unless a single
// message is larger.
constexpr std::size_t default_volume = 64 * mib;
constexpr std::size_t slot_memory = 4 * mib;
constexpr std::uint64_t max_iterations = 200;

constexpr std::array names{"send", "write", "write_imm", "read"};

operation operation_of(const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw failure(exit_code::no_connection, "the peer asks for an unknown operation");
  return static_cast<operation>(at - names.begin());
}

std::size_t slots_for(std::size_t size) {
  return std::clamp<std::size_t>(slot_memory / size, 1, max_slots);
}

std::uint64_t iterations_for(const plan& p, std::size_t size) {
  if (p.iterations != 0) return p.iterations;
  return std::clamp<std::uint64_t>(default_volume / size, 4, max_iterations);
}

}  // namespace

const char* name_of(operation op) {
  return names.at(static_cast<std::size_t>(op));
}

const std::vector<operation>& all_operations() {
  static const std::vector<operation> all{operation::send, operation::write, operation::write_imm,
                                          operation::read};
  return all;
}

void to_json(nlohmann::json& j, const plan& p) {
  std::vector<std::string> operations;
  for (const operation op : p.operations) operations.emplace_back(name_of(op));
  j = {{"operations", operations},
       {"sizes", p.sizes},
       {"iterations", p.iterations},
       {"out_of_range", p.out_of_range}};
}

void from_json(const nlohmann::json& j, plan& p) {
  p.operations.clear();
  for (const auto& name : j.at("operations"))
    p.operations.push_back(operation_of(name.get<std::string>()));
  j.at("sizes").get_to(p.sizes);
  j.at("iterations").get_to(p.iterations);
  j.at("out_of_range").get_to(p.out_of_range);
  const bool sound = !p.sizes.empty() && std::all_of(p.sizes.begin(), p.sizes.end(), [](auto size) {
    return size > 0 && size <= largest;
  });
  if (!sound || p.operations.empty())
    throw failure(exit_code::no_connection, "the peer asks for no operation or an impossible size");
}

std::vector<step> steps_of(const plan& p) {
  std::vector<step> steps;
  const auto add = [&](operation op, bool client_drives, std::size_t size) {
    steps.push_back({.op = op,
                     .client_drives = client_drives,
                     .size = size,
                     .iterations = iterations_for(p, size),
                     .number = steps.size(),
                     .slots = slots_for(size)});
  };
  for (const operation op : p.operations)
    for (const bool client_drives : {true, false}) {
      if (!client_drives && op != operation::send) continue;
      for (const std::size_t size : p.sizes) add(op, client_drives, size);
    }
  return steps;
}

std::size_t capacity_of(const plan& p) {
  std::size_t capacity = 0;
  for (const std::size_t size : p.sizes) capacity = std::max(capacity, size * slots_for(size));
  return capacity;
}

}  // namespace gaudi::rdma_check
