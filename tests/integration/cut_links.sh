#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Connections that end all the time, in the middle of everything that gaudi_stress has processes do: nothing fails,
# nothing is lost or comes twice. Without shared memory, where everything goes by these connections, and with it, where
# they wake the peer; and beside processes that close, are killed and lose their Gaudi.
# Usage: cut_links.sh GAUDI-STRESS CUT-LIBRARY
set -euo pipefail
stress=$1 library=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-cut-links.XXXXXX")
trap 'rm -rf "$work"' EXIT
export HLSIM_DIR=$work/devices

through_cuts() { # LEAST-CUTS IPC OPTION...
  local least=$1 ipc=$2 cuts=0 of_one status=0
  shift 2
  mkdir "$work/cuts"
  FI_GAUDI_IPC=$ipc LD_PRELOAD=$library GAUDI_CUT_EVERY_MS=10 GAUDI_CUT_REPORT=$work/cuts \
    "$stress" --processes 3 --max-size 256K "$@" >"$work/out" 2>"$work/err" || status=$?
  for report in "$work"/cuts/*; do
    [[ ! -e $report ]] || of_one=$(cat "$report")
    cuts=$((cuts + ${of_one:-0}))
  done
  rm -r "$work/cuts"
  if ((status != 0 || cuts < least)); then
    echo "gaudi_stress $* (FI_GAUDI_IPC=$ipc) ends with $status after $cuts cuts:" >&2
    tail -n 5 "$work/out" "$work/err" >&2
    exit 1
  fi
  echo "FI_GAUDI_IPC=$ipc, $cuts cuts: $(tail -n 1 "$work/out")"
}

still=send,inject,senddata,tsend,tinject,tsenddata,write,writedata,read,atomic,fetch,compare,cancel
still+=,peek,claim,discard,multirecv,counters
through_cuts 100 off --rounds 40 --seed 1 --operations $still
through_cuts 100 auto --rounds 40 --seed 2 --operations $still
through_cuts 100 off --rounds 40 --seed 3 --kill --reset
through_cuts 100 auto --rounds 40 --seed 4 --kill --reset
