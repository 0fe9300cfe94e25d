#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# gaudi_rdma_check on a machine without an RDMA device: its help, and the one line with which it ends. What it does with
# such a device: tests/vm/tests/rdma_check.sh.
#   rdma_check.sh PROGRAM
# 77: skipped, this machine has an RDMA device.
set -euo pipefail

program=$1

expect() { # STATUS PATTERN ARGUMENT...: one line on stderr, nothing on stdout
  local wanted=$1 pattern=$2 status=0 said
  shift 2
  said=$("$program" "$@" 2>&1 >/dev/null) || status=$?
  echo "$said"
  [[ $status == "$wanted" ]] || { echo "$*: ended with $status, not with $wanted"; exit 1; }
  grep -q "$pattern" <<<"$said" || { echo "$*: does not say: $pattern"; exit 1; }
}

help=$("$program" --help)
for option in --memory --op --size --all --iters --port --bind --json --timeout --out-of-range; do
  [[ $help == *"  $option"* ]] || { echo "--help does not name $option"; exit 1; }
done
[[ $help == *"flushed before it is verified"* ]] || { echo "--help does not tell of the flush"; exit 1; }
long=$(awk 'length > 80' <<<"$help")
[[ -z $long ]] || { echo "--help is wider than 80 columns: $long"; exit 1; }
for wrong in "--memory gpu" "--memory device:" "--op tagged" "--size 0" "--size 1K --all" "--port 0" "--nonsense"; do
  read -ra arguments <<<"$wrong"
  expect 2 . "${arguments[@]}"
done

if [[ -n $(ls /sys/class/infiniband 2>/dev/null) ]]; then
  echo "skipped: this machine has an RDMA device"
  exit 77
fi
# As a server, as a client, and with device memory, where the Gaudi is not even opened.
for arguments in "" 127.0.0.1 "--memory device --size 64,4K 127.0.0.1"; do
  read -ra arguments <<<"$arguments"
  expect 3 '^gaudi_rdma_check: no RDMA device on this machine' "${arguments[@]}"
  [[ $("$program" "${arguments[@]}" 2>&1 | wc -l) == 1 ]] || { echo "more than one line"; exit 1; }
done
