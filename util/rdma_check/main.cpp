// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <cstdlib>

#include "failure.hpp"
#include "options.hpp"
#include "run.hpp"

int main(int argc, char** argv) {
  using gaudi::rdma_check::exit_code;
  exit_code code = exit_code::operation_failed;
  try {
    gaudi::rdma_check::options chosen;
    if (const auto ended = gaudi::rdma_check::parse(argc, argv, chosen)) return *ended;
    // mlx5 would put short messages into the completion, from where the CPU copies them to the
    // receive's memory, which may be a Gaudi's. Read when the first NIC is opened.
    setenv("MLX5_SCATTER_TO_CQE", "0", 1);
    return static_cast<int>(gaudi::rdma_check::run(chosen));
  } catch (const gaudi::rdma_check::failure& why) {
    fmt::print(stderr, "gaudi_rdma_check: {}\n", why.what());
    code = why.code();
  } catch (const std::exception& why) {
    fmt::print(stderr, "gaudi_rdma_check: {}\n", why.what());
  }
  return static_cast<int>(code);
}
