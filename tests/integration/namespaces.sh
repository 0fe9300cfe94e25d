#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Two processes of one host in different PID and IPC namespaces, as in containers. The one inside cannot name the one
# outside, which sees it, and in two containers neither can name the other: memory is shared all the same, the data is
# right, and one line says what the kernel keeps back.
#   namespaces.sh GAUDI-PERF
set -euo pipefail

perf=$1
apart=(unshare --pid --ipc --fork --kill-child)
"${apart[@]}" true 2>/dev/null || {
  echo "skipped: this user may not make PID namespaces here"
  exit 77
}
export FI_GAUDI_IPC=auto FI_LOG_LEVEL=info FI_LOG_PROV=gaudi
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
port=18731
kept="is on this host: messages go through shared memory, long ones too, as the kernel keeps the peer's memory from us: No such process"
seen='is on this host: messages go through shared memory, long ones in one copy'

expect() { # FILE LINE
  grep -qF "$2" "$1" && return
  echo "no line: $2"
  grep 'on this host' "$1" || true
  return 1
}

transfer() { # WRAPPER-OF-CLIENT...
  local ended=1
  "${apart[@]}" "$perf" --provider gaudi --port $port --memory host >"$work/server" 2>&1 &
  server=$!
  for _ in {1..50}; do
    "$@" "$perf" --provider gaudi --port $port --memory host --op tagged --size 1M --iters 20 --check 127.0.0.1 \
      >"$work/client" 2>&1 && ended=0 && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.2
  done
  wait "$server" || ended=1
  server=
  ((ended == 0)) || { echo "gaudi_perf failed between namespaces:"; tail -n 20 "$work/server" "$work/client"; }
  return $ended
}

transfer
expect "$work/client" "$seen"
expect "$work/server" "$kept"
transfer "${apart[@]}"
expect "$work/client" "$kept"
expect "$work/server" "$kept"
echo "messages of 1 MiB verified in both cases; inside a namespace: $kept"
