#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fi_mr_regattr and fi_close on Gaudi memory that the NIC knows make no system call: a million of each adds none to what
# strace counts of the program.
#   region_syscalls.sh PERF_REGION_COST LIBHL-THUNK
# 77: skipped, strace is not installed or may not trace here.
set -euo pipefail

program=$1 library=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HLSIM_DIR=$folder

skip() {
  echo "skipped: $1"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}
command -v strace >/dev/null || skip "strace is not installed"
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

# Of the thread that registers alone: others sleep and wake in their own time.
count() { # OPERATIONS IN EACH OF THE PROGRAM'S 20 BATCHES
  strace -c -o "$folder/count" "$program" "$library" "$1" alike >"$folder/said"
  grep -qx "registrations by the NIC: 1" "$folder/said" || { cat "$folder/said" >&2; return 1; }
}
# A start makes one call more or less now and then, as its threads come to run; a registration that made any would add a million.
readonly by_chance=20
# The stand-in sleeps until it is ready, for as often as that takes.
calls() { awk '$1 ~ /^[0-9.]+$/ && $NF !~ /^(total|clock_nanosleep)$/ { sum += $4 } END { print sum + 0 }' "$folder/count"; }
sleeps() { awk '$NF == "clock_nanosleep" { sum = $4 } END { print sum + 0 }' "$folder/count"; }

count 1 # which makes the stand-in's files
count 1
few=$(calls)
count 50000
many=$(calls)
echo "system calls with 20 registrations: $few, with 1000000: $many, and $(sleeps) sleeps"
[[ $few -gt 0 && $((many - few)) -lt $by_chance && $(sleeps) -lt 100000 ]] || { cat "$folder/count"; exit 1; }
