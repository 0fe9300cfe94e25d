# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Open MPI, and the client that is shaped like HCL, while their queue pairs go into the error state: over one NIC, and over two.
# It takes minutes: a loss that no NIC tells of is found after FI_GAUDI_LINK_TIMEOUT. A short piece of it is in cuts.sh.
source "$VM_SOURCE/tests/vm/guest/cuts.sh"
# The two NICs do not reach each other, and Open MPI would give each rank another one.
export FI_GAUDI_NIC=rxe0
export FI_GAUDI_IPC=off FI_GAUDI_RECONNECT_TIMEOUT=3600 FI_GAUDI_RAIL_CHUNK=4096
export GAUDI_CUT_MOST=20

# It says itself how often each rank was cut, and fails where none was.
run_mpi() { # PROGRAM
  MPI_PRELOAD=$with_cuts "$VM_SOURCE/tests/integration/mpi/run.sh" 2 "$VM_BUILD/tests/integration/mpi/$1" \
    "$VM_BUILD/deps/libfabric-2.1"
}

FI_GAUDI_RAILS=1 GAUDI_CUT_EVERY_MS=100 run_mpi mpi_traffic
export FI_GAUDI_RAILS=rxe0,rxe1 GAUDI_CUT_EVERY_MS=50
MPI_ONE_SIDED=btl run_mpi mpi_one_sided
cuts_of 20 "$VM_BIN/integration_hcl_client" --gtest_filter='hcl_client.exchanges_*:hcl_client.of_four_ranks_*:hcl_client.flushes_*'
