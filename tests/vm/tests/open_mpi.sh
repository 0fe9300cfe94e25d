# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Debian's Open MPI, unmodified, two ranks over verbs; its own words tell that the provider was used.
mpi=$VM_SOURCE/tests/integration/mpi/run.sh
programs=$VM_BUILD/tests/integration/mpi
libfabric=$VM_BUILD/deps/libfabric-2.1
"$mpi" 2 "$programs/mpi_traffic" "$libfabric"
MPI_ONE_SIDED=btl "$mpi" 2 "$programs/mpi_one_sided" "$libfabric"
