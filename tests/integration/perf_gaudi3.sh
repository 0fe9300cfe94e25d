#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What gaudi_perf says where the device does not copy: the tour leaves device memory out, and who wants bytes in it
# verified is told why that cannot be.
#   perf_gaudi3.sh GAUDI-PERF
set -euo pipefail

perf=$1
export HLSIM_GENERATION=3 HLSIM_DIR
HLSIM_DIR=$(mktemp -d /dev/shm/hlsim-perf-XXXXXX)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$HLSIM_DIR"' EXIT

expect() { # FILE LINE
  grep -qF "$2" "$1" && return
  echo "no line: $2"
  tail -n 20 "$1"
  return 1
}

"$perf" --tour >"$HLSIM_DIR/tour" 2>&1
expect "$HLSIM_DIR/tour" 'simulated Gaudi3'
expect "$HLSIM_DIR/tour" 'Device memory is left out: a Gaudi3 offers no copies'
expect "$HLSIM_DIR/tour" 'All operations gave the right bytes.'

port=18737
"$perf" --port $port --memory device:0 >"$HLSIM_DIR/server" 2>&1 &
server=$!
# It asks until the server is there; a second one would ask for a server that may be ending just then, for a minute.
"$perf" --port $port --memory device:1 --check 127.0.0.1 >"$HLSIM_DIR/client" 2>&1 && exit 1
wait "$server" && exit 1
server=
expect "$HLSIM_DIR/server" 'this Gaudi offers no copies through libhl-thunk'
echo "the tour goes through without device memory, and --check says why it cannot"
