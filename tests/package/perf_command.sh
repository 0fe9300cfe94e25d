#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# gaudi_perf as a command: its options, its formats, and what each side says when the other one fails.
# Usage: perf_command.sh GAUDI-PERF
set -euo pipefail
perf=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-perf.XXXXXX")
export HLSIM_DIR=$work/devices
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "$*" >&2; tail -n 5 "$work"/server "$work"/client >&2 2>/dev/null || true; exit 1; }

# One line that says what is wrong, and a hint.
bad() { # OPTION...
  local status=0
  "$perf" "$@" >"$work/out" 2>"$work/err" || status=$?
  ((status == 2)) || fail "gaudi_perf $* ends with $status, not 2"
  (($(wc -l <"$work/err") == 2)) || fail "gaudi_perf $* says: $(<"$work/err")"
  [[ $(tail -n 1 "$work/err") == "Run with --help for more information." ]] || fail "gaudi_perf $* gives no hint"
}
bad --no-such-option
bad --op teleport
bad --size 0
bad --duration 0
bad --memory disk
bad --json --csv
bad --pairs 0
bad --pairs 2 --threads 0
bad --threads 2
bad --pairs 2 --threads 3
bad --pairs 2 --op read --pages 4
bad --pairs 2 --tour
long=$("$perf" --help | awk 'length > 80')
[[ -z $long ]] || fail "--help is wider than 80 columns: $long"

# Both sides; their outputs and exit statuses are for the caller.
pair() { # SERVER-OPTIONS CLIENT-OPTIONS
  read -ra server_options <<<"$1"
  read -ra client_options <<<"$2"
  "$perf" --port 18741 "${server_options[@]}" >"$work/server" 2>&1 &
  server=$!
  client_status=0 server_status=0
  "$perf" --port 18741 "${client_options[@]}" 127.0.0.1 >"$work/client" 2>&1 || client_status=$?
  wait "$server" || server_status=$?
  server=
}

pair --csv '--csv --size 4K --duration 0.05 --iters 10'
((client_status == 0 && server_status == 0)) || fail "a run with --csv and --duration ends with $client_status, $server_status"
awk -F, '
  NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
  NR == 2 { good = NF == length(at) && $at["size"] == 4096 && $at["count"] % 10 == 0 && $at["count"] >= 10 &&
            $at["MB_per_s"] > 0 && ($at["MB_per_s"] * 8 / 1000 - $at["Gb_per_s"]) ^ 2 < 1e-6 }
  END { exit !(good && NR == 2) }' "$work/client" || fail "as CSV: $(<"$work/client")"
cmp "$work/client" "$work/server" || fail "the sides print different figures"
pair '' '--size 4K --iters 10'
columns=$(awk 'length > 80' "$work/client")
[[ $(<"$work/client") == *Gb/s* && -z $columns ]] || fail "the table: $(<"$work/client")"

# Each side can be the one that fails; the other says why.
export FI_GAUDI_HLTHUNK=/no/such/library.so
cause='the library that FI_GAUDI_HLTHUNK names does not load or shows no Gaudi; gaudi_info --doctor'
pair '--memory device' ''
((client_status == 1 && server_status == 1)) || fail "a server without a Gaudi: $client_status, $server_status"
[[ $(<"$work/server") == *"$cause"* ]] || fail "the server does not say why it fails"
[[ $(<"$work/client") == *"the other side failed: "*"$cause"* ]] || fail "the client does not say why the server failed"
pair '' '--memory device'
((client_status == 1 && server_status == 1)) || fail "a client without a Gaudi: $client_status, $server_status"
[[ $(<"$work/client") == *"$cause"* ]] || fail "the client does not say why it fails"
[[ $(<"$work/server") == *"the other side failed: "*"$cause"* ]] || fail "the server does not say why the client failed"
echo "gaudi_perf: all as expected"
