#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs an MPI program over the provider under Open MPI, and proves that it was used.
#   run.sh RANKS PROGRAM [LIBFABRIC-2-FOLDER]
# Debian's Open MPI 4.1, or an Open MPI 5 that is installed in the folder OPEN_MPI_5.
# MPI_ONE_SIDED=btl has one-sided operations done by RMA and atomics of the provider (btl ofi, osc rdma) instead of
# messages (osc pt2pt); PROGRAM is then told "no-swap". TEST_PROVIDER names another provider. MPI_PRELOAD is a library
# (tests/tools/cut_links.cpp) that cuts the ranks' connections, and has to have cut some. MPI_SAYS is what the provider's
# log has to say. MPI_PATIENCE is how many seconds it may take (150); a moment before they are over each rank is looked at:
# what it waits for, by GAUDI_TOP, the tool, its counters, and where it is, by gdb. 77: skipped, with the reason.
set -euo pipefail

ranks=$1 program=$2
provider=${TEST_PROVIDER:-gaudi}

skip() {
  echo "skipped: $*"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}

[[ -x $program ]] || skip "no mpicc.openmpi when this was built (package libopenmpi-dev)"
launcher=mpirun.openmpi
[[ -z ${OPEN_MPI_5:-} ]] || launcher=$OPEN_MPI_5/bin/mpirun
command -v "$launcher" >/dev/null || skip "Open MPI is not installed (package openmpi-bin)"
if [[ $# -ge 3 ]]; then
  folder=${GAUDI_LIBFABRIC2:-$3}
  [[ -e $folder/lib/libfabric.so.1 ]] || skip "no libfabric 2.x (util/get-libfabric-2.sh builds one)"
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

export FI_PROVIDER=$provider LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Not bound to cores and yielding when idle: several tests share this machine.
options=(--bind-to none -n "$ranks" --mca mpi_yield_when_idle 1 -x FI_PROVIDER -x LD_LIBRARY_PATH)
arguments=()

use_open_mpi_4() {
  options+=(--oversubscribe --mca pml cm --mca mtl ofi --mca mtl_base_verbose 1)
  if [[ ${MPI_ONE_SIDED:-} == btl ]]; then
    options+=(--mca osc rdma --mca btl 'ofi,self')
    arguments=(no-swap)
  else
    options+=(--mca osc pt2pt --mca btl '^ofi,openib')
  fi
  [[ $provider == gaudi ]] || options+=(--mca mtl_ofi_provider_exclude none)
}

# Its btl ofi comes up with pml ob1 alone (mca_bml_base_init is called by pml_ob1_component.c), which has it send messages, too
# (mode 2). Who runs is told by the provider's log, as btl ofi does not say what it has chosen.
use_open_mpi_5() {
  options+=(--map-by :OVERSUBSCRIBE -x FI_LOG_LEVEL -x FI_LOG_PROV)
  export FI_LOG_LEVEL=info FI_LOG_PROV=$provider
  if [[ ${MPI_ONE_SIDED:-} == btl ]]; then
    options+=(--mca pml ob1 --mca btl 'ofi,self' --mca btl_ofi_mode 2 --mca osc rdma)
  else
    options+=(--mca pml cm --mca mtl ofi)
  fi
}

if [[ -n ${OPEN_MPI_5:-} ]]; then use_open_mpi_5; else use_open_mpi_4; fi
for name in FI_PROVIDER_PATH FI_GAUDI_HLTHUNK FI_GAUDI_CORE FI_GAUDI_IPC HLSIM_DEVICES; do
  [[ -z ${!name:-} ]] || options+=(-x "$name")
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
# Open MPI's launchers have one folder for all of a user's, which one that ends removes while another makes its own in it.
[[ -n ${OPEN_MPI_5:-} ]] || options+=(--mca orte_tmpdir_base "$work")
if [[ -n ${MPI_PRELOAD:-} ]]; then
  options+=(-x "LD_PRELOAD=$MPI_PRELOAD" -x "GAUDI_CUT_REPORT=$work" -x GAUDI_CUT_EVERY_MS -x GAUDI_CUT_MOST)
fi
patience=${MPI_PATIENCE:-150}

# What each rank waits for, once most of the patience is spent.
ask_ranks() {
  local process
  sleep $((patience * 9 / 10))
  for process in /proc/[0-9]*; do
    [[ $process/exe -ef $program ]] || continue
    echo "rank in process ${process#/proc/}:"
    "$GAUDI_TOP" --why "${process#/proc/}" || true
    "$GAUDI_TOP" --once --json --pid "${process#/proc/}" || true
    gdb -batch -nx -ex "thread apply all backtrace 16" -p "${process#/proc/}" 2>&1 | grep -E "^(#|Thread)" || true
  done
}
: >"$work/why"
if [[ -n ${GAUDI_TOP:-} ]]; then
  ask_ranks >"$work/why" 2>&1 </dev/null &
  asking=$!
  # The sleep that it is in is a child of its own.
  stop_asking() { pkill -P "$asking" || true; kill "$asking" || true; }
  trap 'stop_asking 2>/dev/null; rm -rf "$work"' EXIT
fi
timeout "$patience" "$launcher" "${options[@]}" "$program" "${arguments[@]}" >"$log" 2>&1 || {
  echo "mpirun failed:"
  tail -n 40 "$log"
  cat "$work/why"
  exit 1
}
grep -E 'all verified' "$log" || { echo "the program did not finish:"; tail -n 40 "$log"; exit 1; }

# Ranks that use the provider. "mtl:ofi:provider: NAME" gives the domain's name, which begins with the provider's for gaudi.
count_users() {
  local pattern='mtl:ofi:provider: '
  if [[ -n ${OPEN_MPI_5:-} ]]; then
    { grep -aoE "libfabric:[0-9]+:[0-9]+:[^:]*:$provider:ep_" "$log" || true; } | cut -d: -f2 | sort -u | wc -l
  else
    [[ $provider == gaudi ]] && pattern+='gaudi'
    grep -c "$pattern" "$log" || true
  fi
}
used=$(count_users)
[[ $used -ge $ranks ]] || {
  echo "$provider was used by $used of $ranks ranks:"
  grep 'mtl:ofi' "$log" || tail -n 40 "$log"
  exit 1
}
echo "$provider was used by all $ranks ranks"
[[ -z ${MPI_SAYS:-} ]] || grep -q "$MPI_SAYS" "$log" || { echo "the provider's log does not say: $MPI_SAYS"; exit 1; }
[[ -n ${MPI_PRELOAD:-} ]] || exit 0
compgen -G "$work/cuts.*" >/dev/null || { echo "no connection was cut"; exit 1; }
echo "cut in each rank: $(cat "$work"/cuts.* | tr '\n' ' ')"
