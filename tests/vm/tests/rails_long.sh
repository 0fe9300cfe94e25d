# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What two rails carry of what their links do, which are so slow (tc-tbf(8)) that the CPU does not matter: at least 1.9 times as
# much as one of two that are alike, and 0.9 of both where one is three times as fast.
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
add_link 2

shape() { # LINK MBIT
  for end in "left$1" "right$1"; do tc qdisc replace dev "$end" root tbf rate "$2mbit" burst 32k limit 8m; done
}

# Prints the MB/s that messages, or reads, have over these devices.
rate_over() { # DEVICES OPERATION
  FI_GAUDI_NIC=right1 FI_GAUDI_RAILS=${1//left/right} "$VM_BUILD/util/gaudi_perf" >/dev/null &
  until ss -ltn | grep 18515 >/dev/null; do
    sleep 0.1
    kill -0 $!
  done
  FI_GAUDI_NIC=left1 FI_GAUDI_RAILS=$1 "$VM_BUILD/util/gaudi_perf" --op "$2" --size 1M --iters 16 --window 4 --csv 127.0.0.1 |
    python3 -c 'import csv, sys; print(next(csv.DictReader(sys.stdin))["MB_per_s"])'
  wait
}

check() { # WHAT RATE LEAST OF
  awk -v what="$1" -v rate="$2" -v least="$3" -v of="$4" 'BEGIN {
    printf "%s: %.2f MB/s, %.2f of %.2f MB/s (at least %s)\n", what, rate, rate / of, of, least
    exit rate < least * of
  }'
}

export FI_GAUDI_RAIL_CHUNK=32768
shape 1 20
shape 2 20
one=$(rate_over left1 tagged)
check "messages over two links" "$(rate_over left1,left2 tagged)" 1.9 "$one"
check "reads over two links" "$(rate_over left1,left2 read)" 1.9 "$one"
shape 1 10
shape 2 30
both=$(awk -v one="$one" 'BEGIN { print 2 * one }')
check "messages over a slow and a fast link" "$(rate_over left1,left2 tagged)" 0.9 "$both"
check "reads over a slow and a fast link" "$(rate_over left1,left2 read)" 0.9 "$both"
