#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# fi_mr_regattr and fi_close on Gaudi memory that the NIC knows make no system call, by what strace shows of a million
# of each.
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

# Of the thread that registers alone, between the program's two calls of getppid: 20 batches.
strace -o "$folder/trace" "$program" "$library" 50000 alike >"$folder/said"
grep -qx "registrations by the NIC: 1" "$folder/said" || { cat "$folder/said" >&2; exit 1; }
marks=$(grep -c '^getppid' "$folder/trace" || true)
calls=$(awk '/^getppid/ { inside = !inside; next } inside' "$folder/trace")
echo "$(wc -l <"$folder/trace") system calls in all, $(grep -c . <<<"$calls" || true) by 1000000 registrations"
[[ $marks == 2 && -z $calls ]] || { echo "$calls" | sort | uniq -c | sort -rn; exit 1; }
