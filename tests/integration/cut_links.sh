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

through_cuts() { # LEAST-CUTS IPC OPTION...
  local least=$1 ipc=$2 cuts=0 of_one status=0
  shift 2
  mkdir "$work/cuts"
  FI_GAUDI_IPC=$ipc LD_PRELOAD=$library GAUDI_CUT_EVERY_MS=20 GAUDI_CUT_MOST=150 GAUDI_CUT_REPORT=$work/cuts \
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
through_cuts 20 off --rounds 30 --seed 1 --operations $still
through_cuts 20 auto --rounds 30 --seed 2 --operations $still
# Rails end like connections do.
export FI_GAUDI_RAILS=3 FI_GAUDI_RAIL_CHUNK=4096
through_cuts 20 off --rounds 30 --seed 3 --operations $still
