# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Times in turns: in each round every side once, and what is told is the median of the rounds' ratios.
# Emulation is no NIC, so only ratios count. Sourced by the tests that tell them.
perf=$VM_BUILD/util/gaudi_perf
work=$(mktemp -d)
export FI_UNIVERSE_SIZE=16
declare -A iterations=([64K]=100 [1M]=20 [16M]=4)

# gaudi_perf at one end: the first CPU is the server's and the last one the client's, if there are several. It runs
# when the kernel has nothing to do: soft-RoCE is threads of the kernel, and a NIC does not share its time with those
# that poll it. Otherwise the scheduler's shares are what is measured.
perf_at() { # CPU PROVIDER ARGUMENT...
  local cpu=$1 provider=$2
  shift 2
  FI_PROVIDER="${provider%%;*}" chrt --idle 0 taskset -c "$cpu" "$perf" --provider "$provider" "$@"
}

# Adds the mean time of a tagged ping-pong, in microseconds, to the file named by the label. Not the median: in a guest
# times come in two kinds, by who ran when, and the median jumps from one to the other.
measure() { # LABEL SIZE PROVIDER CLIENT-MEMORY SERVER-MEMORY [VARIABLE=VALUE...]
  local label=$1 size=$2 provider=$3 client=$4 server=$5
  shift 5
  (
    for setting; do export "${setting?}"; done
    perf_at 0 "$provider" --memory "$server" >/dev/null &
    until ss -ltn | grep 18515 >/dev/null; do sleep 0.1; done
    perf_at $(($(nproc --all) - 1)) "$provider" --memory "$client" \
      --size "$size" --iters "${iterations[$size]}" --window 2 --json 10.0.0.1 >"$work/result"
    wait
  )
  sed -n 's/.*"mean": *\([0-9.]*\).*/\1/p' "$work/result" >>"$work/$label.$size"
}

# Adds the mean times of tagged ping-pongs of host memory over two providers, in turn in short blocks between the same
# two processes, to the files named by the labels: what they differ by can be less than two runs of one do.
ping_pongs() { # LABEL LABEL SIZE PROVIDER PROVIDER
  local pairs=30
  [[ $VM_ICOUNT == yes ]] && pairs=5
  FI_PROVIDER="gaudi,verbs,ofi_rxm" chrt --idle 0 "$VM_BUILD/tests/perf/perf_ping_pong" \
    "$(numfmt --from=iec "$3")" 50 "$pairs" "$4" "$5" >"$work/pairs"
  cut -d' ' -f1 "$work/pairs" >>"$work/$1.$3"
  cut -d' ' -f2 "$work/pairs" >>"$work/$2.$3"
}

# How many times faster the second is, in each round, in order.
ratios() { # LABEL LABEL SIZE
  paste "$work/$1.$3" "$work/$2.$3" | awk '{ printf "%.3f\n", $1 / $2 }' | sort -n
}

ratio() { # LABEL LABEL SIZE: the median
  ratios "$@" | awk '{ r[NR] = $1 } END { printf "%.2f", r[int((NR + 1) / 2)] }'
}

spread() { # LABEL LABEL SIZE: the median, the least and the greatest
  ratios "$@" | awk '{ r[NR] = $1 } END { printf "%.2f [%.2f .. %.2f]", r[int((NR + 1) / 2)], r[1], r[NR] }'
}
