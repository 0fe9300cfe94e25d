// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/latency.hpp"
#include "plan.hpp"

namespace gaudi::rdma_check {

/// One side, as it shows itself to the other.
struct side {
  std::string memory;  ///< "host" or "device"
  std::string device;  ///< "Gaudi2 0000:19:00.0", "simulated Gaudi2 ...", empty for host memory
  std::string nic;
};

void to_json(nlohmann::json& j, const side& s);
void from_json(const nlohmann::json& j, side& s);

/// What a step came to, from both sides.
struct row {
  std::string operation;
  std::string pair;  ///< "device -> host": client's memory, the way of the data, server's memory
  std::size_t size = 0;
  std::uint64_t iterations = 0;
  common::latency_summary latency;
  double megabytes_per_second = 0;  ///< 10^6 bytes
  std::string difference;           ///< empty: verified
  std::uint64_t flushes = 0;        ///< reads that had a NIC's writes arrive in device memory
};

void to_json(nlohmann::json& j, const row& r);
void from_json(const nlohmann::json& j, row& r);

/// All that a run came to.
struct outcome {
  side client;
  side server;
  std::vector<row> rows;
  bool out_of_range = false;       ///< that check was made
  std::string out_of_range_fault;  ///< empty: it passed

  bool contents_right() const;
};

/// The table: its head, each row when it is known, its end. As one JSON document: all at the end.
void print_head(const outcome& o);
void print_row(const row& r);
void print_end(const outcome& o);
void print_json(const outcome& o);

}  // namespace gaudi::rdma_check
