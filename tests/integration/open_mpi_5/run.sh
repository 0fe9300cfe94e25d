#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds Open MPI 5 where that is not done yet, and runs the programs of ../mpi over the provider under it: by messages (pml cm,
# mtl ofi) and by RMA (pml ob1, btl ofi, osc rdma), through shared memory and as between hosts, on each libfabric.
#   run.sh BUILD-FOLDER [PROGRAM...]
# All programs are run, whatever fails. 77: skipped, with the reason.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1")
shift
names=(traffic modes storm datatypes threads one_sided collectives)
((!$#)) || names=("$@")
status=0
prefix=$("$here/build.sh" --build "$build") || status=$?
[[ $status == 77 && ${CI:-} == true ]] && exit 1
[[ $status == 0 ]] || exit "$status"
export OPEN_MPI_5=$prefix
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run_program() { # NAME WAY IPC [LIBFABRIC-2-FOLDER]
  local why="through messages"
  local -x FI_GAUDI_IPC=$3 MPI_ONE_SIDED=
  [[ $2 == messages ]] || MPI_ONE_SIDED=btl why="by RMA"
  local what="$1, $why, FI_GAUDI_IPC=$3${4:+, libfabric 2}"
  if "$here/../mpi/run.sh" 4 "$work/$1" "${@:4}" >"$work/output" 2>&1; then
    echo "$what: passed"
  else
    echo "$what: FAILED"
    cat "$work/output"
    status=1
  fi
}

for name in "${names[@]}"; do
  "$prefix/bin/mpicc" -O2 -pthread -o "$work/$name" "$here/../mpi/mpi_$name.c"
  for ipc in auto off; do
    for libfabric in "" "$build/deps/libfabric-2.1"; do
      # Between ranks of one host Open MPI does what is one-sided in memory of its own, unless RMA is asked for.
      [[ $name == one_sided ]] || run_program "$name" messages "$ipc" ${libfabric:+"$libfabric"}
      run_program "$name" rma "$ipc" ${libfabric:+"$libfabric"}
    done
  done
done
exit "$status"
