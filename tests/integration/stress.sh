#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# gaudi_stress as a command: its options, short runs that pass, and one that is made to fail.
# Usage: stress.sh GAUDI-STRESS
set -euo pipefail
stress=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-stress.XXXXXX")
export HLSIM_DIR=$work/devices
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; tail -n 20 "$work/out" "$work/err" >&2 || true; exit 1; }

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
bad --seconds 1 --rounds 1
bad --reset --memory host
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
wide=$(awk 'length > 80 && !/^PASSED/' "$work/out")
[[ -z $wide ]] || fail "a line is wider than 80 columns: $wide"
said=$(verdict 0 --rounds 2 --processes 2 --memory device --max-size 64K --operations tsend,write,cancel)
[[ $said == PASSED* ]] || fail "the verdict: $said"

# Workers that close, are killed, lose their Gaudi. Seeds with which these come early.
said=$(verdict 0 --rounds 12 --processes 3 --seed 2 --max-size 64K)
[[ $said == PASSED*" rounds, "[1-9]* ]] || fail "with reconnects: $said"
calm=send,tsend,senddata,write,read,fetch,cancel
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
said=$(FI_GAUDI_HLTHUNK=/no/such/library.so verdict 1 --rounds 1 --reset)
[[ $said == "FAILED: --reset: no worker has a Gaudi"* ]] || fail "a reset without a Gaudi: $said"
said=$(verdict 1 --rounds 1 --provider no_such_provider)
[[ $said == FAILED*"provider 'no_such_provider' offers no reliable endpoint"* ]] || fail "no provider: $said"
echo "gaudi_stress: all as expected"
