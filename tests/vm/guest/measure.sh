# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Times of gaudi_perf in turns, median of the medians of all rounds. Emulation is no NIC, so only ratios count. Sourced
# by the tests that tell them.
perf=$VM_BUILD/util/gaudi_perf
work=$(mktemp -d)
export FI_UNIVERSE_SIZE=16
declare -A iterations=([8]=50 [4K]=50 [64K]=20 [1M]=20 [16M]=4)

# Adds the median time of a tagged ping-pong, in microseconds, to the file named by the label.
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
  sort -n "$work/$1.$2" | sed -n "$((($(wc -l <"$work/$1.$2") + 1) / 2))p"
}

ratio() { # LABEL LABEL SIZE: how many times faster the second is
  awk -v one="$(median "$1" "$3")" -v other="$(median "$2" "$3")" 'BEGIN { printf "%.2f", one / other }'
}
