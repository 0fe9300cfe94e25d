# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What zero copy gains: tagged ping-pong of gaudi_perf in turns, median times of all rounds. Emulation is no NIC, so
# only the ratio counts, and only the great one is demanded: 1.3 times the speed of staging.
perf=$VM_BUILD/util/gaudi_perf
work=$(mktemp -d)
export FI_UNIVERSE_SIZE=16

declare -A iterations=([8]=50 [4K]=50 [64K]=20 [1M]=10 [16M]=2)

# Adds a median in microseconds to the file named by the label.
measure() { # LABEL SIZE PROVIDER CLIENT-MEMORY SERVER-MEMORY [VARIABLE=VALUE...]
  local label=$1 size=$2 provider=$3 client=$4 server=$5
  shift 5
  env "$@" FI_PROVIDER="${provider%%;*}" "$perf" --provider "$provider" --memory "$server" >/dev/null &
  until ss -ltn | grep 18515 >/dev/null; do sleep 0.1; done
  env "$@" FI_PROVIDER="${provider%%;*}" "$perf" --provider "$provider" --memory "$client" \
    --size "$size" --iters "${iterations[$size]}" --window 2 --json 10.0.0.1 >"$work/result"
  wait
  sed -n 's/.*"median": *\([0-9.]*\).*/\1/p' "$work/result" >>"$work/$label.$size"
}

median() { # LABEL SIZE
  sort -n "$work/$1.$2" | sed -n 2p
}

ratio() { # LABEL LABEL SIZE: how many times faster the second is
  awk -v one="$(median "$1" "$3")" -v other="$(median "$2" "$3")" 'BEGIN { printf "%.2f", one / other }'
}

for size in 64K 1M 16M; do
  for _ in 1 2 3; do
    measure rxm $size "verbs;ofi_rxm" host host
    measure zero_copy $size gaudi device:0 device:1
    measure staged $size gaudi device:0 device:1 FI_GAUDI_DMABUF=off
  done
  gain=$(ratio staged zero_copy $size)
  echo "$size: zero copy has $gain times the speed of staging, $(ratio rxm zero_copy $size) times that of verbs;ofi_rxm in host memory"
  awk -v gain="$gain" 'BEGIN { exit !(gain >= 1.3) }'
done
for size in 8 4K; do
  for _ in 1 2 3; do
    measure rxm_host $size "verbs;ofi_rxm" host host
    measure host $size gaudi host host
  done
  echo "$size: a host message takes $(ratio host rxm_host $size) times as long as with verbs;ofi_rxm"
done
