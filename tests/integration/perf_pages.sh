#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Pages that lie in another order at each end: every byte is right, and the tool says how they compare with one piece.
#   perf_pages.sh GAUDI-PERF
set -euo pipefail

perf=$1
port=$((20000 + $$ % 12000)) # below those that the kernel gives to connections
export HLSIM_DIR
HLSIM_DIR=$(mktemp -d /dev/shm/hlsim-perf-XXXXXX)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$HLSIM_DIR"' EXIT

run() { # MEMORY-OF-SERVER MEMORY-OF-CLIENT OPTION...
  local there=$1 here=$2
  shift 2
  "$perf" --port $port --memory "$there" >"$HLSIM_DIR/server" 2>&1 &
  server=$!
  "$perf" --port $port --memory "$here" --json --check --iters 2 --warmup 1 "$@" 127.0.0.1 >"$HLSIM_DIR/client"
  wait "$server"
  server=
}

for op in write read; do
  for memory in 'host host' 'device:0 device:1'; do
    # shellcheck disable=SC2086  # two words
    run $memory --op $op --size 4500 --pages 1000
    python3 - "$HLSIM_DIR/client" <<'EOF'
import json, sys
result = json.load(open(sys.argv[1]))["results"][0]
assert result["of_one_piece"] > 0, result
assert result["refused_per_page"] >= 0, result
EOF
  done
done

code=0
"$perf" --pages 2 --op send 127.0.0.1 >"$HLSIM_DIR/client" 2>&1 || code=$?
[[ $code == 2 ]] || { echo "--pages was taken with --op send: $code"; exit 1; }
grep -qF -- '--pages: only with --op write or read' "$HLSIM_DIR/client"
echo "pages arrive as they were sent"
