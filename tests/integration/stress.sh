#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# gaudi_stress as a command: its options, short runs that pass, and one that is made to fail.
# Usage: stress.sh GAUDI-STRESS
set -euo pipefail
stress=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-stress.XXXXXX")
export HLSIM_DIR=$work/devices
port=$((20000 + $$ % 12000)) # below those that the kernel gives to connections
sides=()
end() {
  ((${#sides[@]} == 0)) || kill "${sides[@]}" 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT
fail() { echo "$*" >&2; tail -n 20 "$work"/*out "$work"/*err >&2 || true; exit 1; }

# One line that says what is wrong, and a hint.
bad() { # OPTION...
  local status=0
  "$stress" "$@" >"$work/out" 2>"$work/err" || status=$?
  ((status == 2)) || fail "gaudi_stress $* ends with $status, not 2"
  (($(wc -l <"$work/err") == 2)) || fail "gaudi_stress $* says too little or too much"
  [[ $(tail -n 1 "$work/err") == "Run with --help for more information." ]] || fail "gaudi_stress $* gives no hint"
}
bad --no-such-option
bad --processes 1
bad --memory disk
bad --max-size 0
bad --operations teleport
bad --operations cancel
bad --operations peek,claim,discard,multirecv,ranges,counters
bad --seconds 1 --rounds 1
bad --reset --memory host
bad --server node1
bad --server --seed 1
long=$("$stress" --help | awk 'length > 80')
[[ -z $long ]] || fail "--help is wider than 80 columns: $long"

verdict() { # EXPECTED-STATUS OPTION...
  local expected=$1 status=0
  shift
  "$stress" "$@" >"$work/out" 2>"$work/err" || status=$?
  ((status == expected)) || fail "gaudi_stress $* ends with $status, not $expected"
  [[ ! -s $work/err ]] || fail "gaudi_stress $* says something on stderr"
  tail -n 1 "$work/out"
}

# Every operation, host and device memory, and one process that has no device.
said=$(verdict 0 --rounds 4 --processes 3 --seed 1)
[[ $said == "PASSED: "*" operations of 3 processes in 4 rounds, "*"; seed 1" ]] || fail "the verdict: $said"
modes='; [1-9][0-9]* messages received after a peek, [1-9][0-9]* after a claim, [1-9][0-9]* in buffers for many'
modes+=', [1-9][0-9]* discarded, [1-9][0-9]* ends counted by fi_cntr, [1-9][0-9]* RMA operations on several ranges'
modes+='; every byte was right'
[[ $said =~ $modes ]] || fail "not all that receives can do was done: $said"
wide=$(awk 'length > 80 && !/^PASSED/' "$work/out")
[[ -z $wide ]] || fail "a line is wider than 80 columns: $wide"
said=$(verdict 0 --rounds 2 --processes 2 --memory device --max-size 64K --operations tsend,write,cancel)
[[ $said == PASSED* ]] || fail "the verdict: $said"
said=$(verdict 1 --rounds 2 --processes 3 --memory device)
[[ $said == "FAILED: worker 2: there is no Gaudi for it: "*" offer 2, and each worker needs its own; "* ]] ||
  fail "with too few Gaudis: $said"

# What receives can do, each by itself and nothing else of it.
verdict_of() { # NUMBERS OPERATIONS
  said=$(verdict 0 --rounds 2 --processes 2 --seed 3 --max-size 64K --operations "$2")
  local pattern="; ($1), ${3:-0} RMA operations on several ranges; every byte was right"
  [[ $said =~ $pattern ]] || fail "with $2: $said"
}
some='[1-9][0-9]*'
verdict_of "0 messages [a-z ]*, 0 [a-z ]*, 0 [a-z ]*, 0 [a-z]*, 0 [a-z_ ]*" send,tsend,write
verdict_of "$some messages [a-z ]*, 0 [a-z ]*, 0 [a-z ]*, 0 [a-z]*, 0 [a-z_ ]*" send,tsend,peek
verdict_of "0 messages [a-z ]*, $some [a-z ]*, 0 [a-z ]*, 0 [a-z]*, 0 [a-z_ ]*" send,tsend,claim
verdict_of "0 messages [a-z ]*, 0 [a-z ]*, $some [a-z ]*, 0 [a-z]*, 0 [a-z_ ]*" send,tsend,multirecv
verdict_of "0 messages [a-z ]*, 0 [a-z ]*, 0 [a-z ]*, $some [a-z]*, 0 [a-z_ ]*" send,tsend,discard
verdict_of "0 messages [a-z ]*, 0 [a-z ]*, 0 [a-z ]*, 0 [a-z]*, 0 [a-z_ ]*" write,read,ranges "$some"
# Each operation and each receive has an end, and a counter has counted it.
verdict_of "0 messages [a-z ]*, 0 [a-z ]*, 0 [a-z ]*, 0 [a-z]*, $some [a-z_ ]*" write,read,counters
[[ $said =~ ^PASSED:\ ([0-9]+)\ .*,\ ([0-9]+)\ ends && ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] ||
  fail "operations and what counters counted differ: $said"

# Workers that close, are killed, lose their Gaudi. Seeds with which these come early.
said=$(verdict 0 --rounds 12 --processes 3 --seed 2 --max-size 64K)
[[ $said == PASSED*" rounds, "[1-9]* ]] || fail "with reconnects: $said"
calm=send,tsend,senddata,write,read,fetch,cancel,peek,claim,discard,multirecv,ranges,counters
said=$(verdict 0 --rounds 12 --processes 3 --seed 2 --max-size 64K --operations "$calm" --kill)
[[ $said == PASSED*" 0 reconnects, "[1-9]* ]] || fail "with kills: $said"
said=$(verdict 0 --rounds 12 --processes 3 --seed 2 --max-size 64K --operations "$calm" --reset)
[[ $said == PASSED*" 0 kills, "[1-9]* ]] || fail "with resets: $said"
[[ $(ls "$HLSIM_DIR") != *fault* ]] || fail "a fault is left"

# A seed repeats a run, as long as nothing is lost.
operations=$(verdict 0 --rounds 2 --processes 2 --seed 7 --operations tsend,send,read)
again=$(verdict 0 --rounds 2 --processes 2 --seed 7 --operations tsend,send,read)
[[ ${operations%% of *} == "${again%% of *}" ]] || fail "a seed gives: $operations, then: $again"

# A wrong byte is found: which, whose, and how to have it again.
said=$(verdict 1 --rounds 4 --processes 2 --seed 5 --corrupt 3)
pattern='^FAILED: worker [01]: WRONG DATA: byte 0 in (host|device) memory differs, [a-z]+ of [0-9]+ bytes from worker'
[[ $said =~ $pattern ]] || fail "a wrong byte: $said"
[[ $said == *"(round 3, operation "*"after "*" in 2 rounds, "*"repeat with --seed 5" ]] || fail "a wrong byte: $said"
# Also of a message that shares its buffer with others.
said=$(verdict 1 --rounds 1 --processes 2 --seed 1 --max-size 64K --operations send,multirecv --corrupt 1)
pattern='WRONG DATA: byte [0-9]+ in (host|device) memory differs, in the buffers for messages from worker [01] \(round 1\)'
[[ $said =~ $pattern ]] || fail "a wrong byte in a buffer for many: $said"
said=$(FI_GAUDI_HLTHUNK=/no/such/library.so verdict 1 --rounds 1 --reset)
[[ $said == "FAILED: --reset: no worker has a Gaudi"* ]] || fail "a reset without a Gaudi: $said"
said=$(verdict 1 --rounds 1 --provider no_such_provider)
[[ $said == FAILED*"provider 'no_such_provider' offers no reliable endpoint"* ]] || fail "no provider: $said"

# Ctrl-C, of which the terminal tells all of the processes: the round under way is finished.
await_rounds() { # NAME of the output; until its last line has operations
  local line="" i
  for ((i = 0; i < 600; ++i)); do
    line=$(tail -n 1 "$work/$1.out")
    [[ $line =~ ^\ +[0-9]+\ +[1-9] ]] && return
    sleep 0.1
  done
  fail "no round ends: $line"
}
: >"$work/interrupted.out"
setsid "$stress" --seconds 3600 --processes 2 --max-size 64K >"$work/interrupted.out" 2>"$work/err" &
interrupted=$!
sides=("$interrupted")
await_rounds interrupted
kill -INT -- "-$interrupted"
wait "$interrupted" || fail "interrupted it ends with $?"
sides=()
said=$(tail -n 1 "$work/interrupted.out")
[[ $said == "PASSED: "[1-9]*" in "[1-9]*" rounds, "* && ! -s $work/err ]] || fail "interrupted: $said"

# Two sides, as on two hosts, each with a Gaudi.
start_both() { # SERVER-OPTION... -- CLIENT-OPTION...
  local own=()
  while [[ $1 != -- ]]; do own+=("$1"); shift; done
  shift
  port=$((port + 1))
  # Here, and not only by the redirections, which another process makes in its own time: until then
  # a reader would take the lines of the run before for those of this one.
  rm -f "$work"/{server,client}.{out,err}
  touch "$work"/{server,client}.out
  FI_GAUDI_DEVICE=0 "$stress" --server --port $port "${own[@]}" >"$work/server.out" 2>"$work/server.err" &
  server=$!
  FI_GAUDI_DEVICE=1 "$stress" --port $port "$@" 127.0.0.1 >"$work/client.out" 2>"$work/client.err" &
  client=$!
  sides=("$server" "$client")
}
ends() { # SIDE EXPECTED-STATUS; its verdict is in said then
  local status=0
  wait "${!1}" || status=$?
  ((status == $2)) || fail "the $1 ends with $status, not $2"
  said=$(tail -n 1 "$work/$1.out")
}
both_end() { # EXPECTED-STATUS
  ends server "$1"
  local first=$said
  ends client "$1"
  [[ $said == "$first" ]] || fail "the sides differ: $first"
}
start_both --processes 2 -- --processes 1 --rounds 18 --seed 9 --max-size 64K --operations "$calm" --kill --reset
both_end 0
[[ $said == PASSED*" of 3 processes in 18 rounds, 0 reconnects, "[1-9]*" kills, "[1-9]*" resets, "*"; seed 9" ]] ||
  fail "two sides: $said"
[[ ! -s $work/server.err && ! -s $work/client.err ]] || fail "two sides say something on stderr"

# A failure ends both, and says whose, when and of what.
start_both --processes 1 -- --processes 1 --rounds 4 --seed 5 --corrupt 3
both_end 1
pattern='^FAILED: worker (0 \(server\)|1 \(client\)): WRONG DATA: .* \(round 3, operation [0-9]+\); after .*repeat with --seed 5$'
[[ $said =~ $pattern ]] || fail "a wrong byte on two sides: $said"

# A side that is killed in the middle is missed by the other at once, long before any time-out.
# The one that leads is interrupted.
start_both --processes 1 -- --processes 1 --seconds 3600 --max-size 64K
await_rounds client
kill -INT "$server"
both_end 0
for victim in client server; do
  other=$([[ $victim == client ]] && echo server || echo client)
  start_both --processes 1 -- --processes 2 --seconds 3600 --timeout 600 --max-size 64K
  await_rounds "$other"
  kill -9 "${!victim}"
  ends "$other" 1
  [[ $said == "FAILED: the $victim is gone"*"repeat with --seed "* ]] || fail "the $victim was killed: $said"
done
said=$(verdict 0 --rounds 1 --processes 2 --seed 1) # nothing of all that is left

# Who is not the other side is told so.
port=$((port + 1))
"$stress" --server --port $port >"$work/server.out" 2>"$work/server.err" &
server=$!
sides=("$server")
until echo stranger 2>/dev/null >"/dev/tcp/127.0.0.1/$port"; do
  kill -0 "$server" 2>/dev/null || fail "the server for a stranger is gone"
  sleep 0.1
done
ends server 1
[[ $(cat "$work/server.err") == "gaudi_stress: the peer does not speak this tool's protocol" ]] ||
  fail "a stranger: $(cat "$work/server.err")"
sides=()
echo "gaudi_stress: all as expected"
