#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Connections that end all the time, in the middle of everything that gaudi_stress has processes do: nothing fails,
# nothing is lost or comes twice. Without shared memory, where everything goes by these connections, and with it, where
# they wake the peer. Kills and resets beside the cuts are no part of it: with them it has hung, which is not explained.
# Usage: cut_links.sh GAUDI-STRESS CUT-LIBRARY
set -euo pipefail
stress=$1 library=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-cut-links.XXXXXX")
trap 'rm -rf "$work"' EXIT
export HLSIM_DIR=$work/devices
# On a machine that is too busy for anything to get on between two cuts a session would be given up, and rightly so.
export FI_GAUDI_RECONNECT_TIMEOUT=3600

# As many cuts as all processes of a run made.
cuts_of_run() {
  local report of_one sum=0
  for report in "$work"/cuts/*; do
    [[ ! -e $report ]] || of_one=$(cat "$report")
    sum=$((sum + ${of_one:-0}))
  done
  echo "$sum"
}

# Where the machine gets through a run between the cuts, others follow: so many cuts there are.
max_runs=50
through_cuts() { # LEAST-CUTS IPC SEED
  local least=$1 ipc=$2 seed=$3 cuts=0 status=0 run
  for ((run = 0; run < max_runs && cuts < least && status == 0; run++)); do
    mkdir "$work/cuts"
    FI_GAUDI_IPC=$ipc LD_PRELOAD=$library GAUDI_CUT_EVERY_MS=20 GAUDI_CUT_MOST=150 GAUDI_CUT_REPORT=$work/cuts \
      "$stress" --processes 3 --max-size 256K --rounds 30 --seed $((seed + 100 * run)) --operations "$still" \
      >"$work/out" 2>"$work/err" || status=$?
    cuts=$((cuts + $(cuts_of_run)))
    rm -r "$work/cuts"
  done
  if ((status != 0 || cuts < least)); then
    echo "gaudi_stress of $run runs, the last with seed $((seed + 100 * (run - 1))) (FI_GAUDI_IPC=$ipc), ends with $status after $cuts cuts:" >&2
    tail -n 5 "$work/out" "$work/err" >&2
    exit 1
  fi
  echo "FI_GAUDI_IPC=$ipc, $cuts cuts in $run runs: $(tail -n 1 "$work/out")"
}

still=send,inject,senddata,tsend,tinject,tsenddata,write,writedata,read,atomic,fetch,compare,cancel
still+=,peek,claim,discard,multirecv,ranges,counters
through_cuts 20 off 1
through_cuts 20 auto 2
# Rails end like connections do.
export FI_GAUDI_RAILS=3 FI_GAUDI_RAIL_CHUNK=4096
through_cuts 20 off 3
