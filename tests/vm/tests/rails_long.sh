# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What two rails carry of what their links do, which are so slow (tc-tbf(8)) that the CPU does not matter: at least 0.95 of what
# both carry by themselves where they are alike (1.9 times one), and 0.9 where one is three times as fast. Both links are
# measured next to their sum, before and behind it.
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
add_link 2

shape() { # LINK MBIT
  for end in "left$1" "right$1"; do tc qdisc replace dev "$end" root tbf rate "$2mbit" burst 32k limit 8m; done
}

# Prints the MB/s that messages, reads or writes have over these devices.
rate_over() { # DEVICES OPERATION
  local rails=$1 nic=${1%%,*} side=$VM_BUILD/util/gaudi_perf
  FI_GAUDI_NIC=${nic/left/right} FI_GAUDI_RAILS=${rails//left/right} "$side" >/dev/null &
  until ss -ltn | grep 18515 >/dev/null; do
    sleep 0.1
    kill -0 $!
  done
  FI_GAUDI_NIC=$nic FI_GAUDI_RAILS=$rails "$side" --op "$2" --size 1M --iters 10 --window 4 --csv 127.0.0.1 |
    python3 -c 'import csv, sys; print(next(csv.DictReader(sys.stdin))["MB_per_s"])'
  wait
}

check() { # LEAST OPERATION
  local first both second
  first=$(rate_over left1 "$2")
  both=$(rate_over left1,left2 "$2")
  second=$(rate_over left2 "$2")
  awk -v least="$1" -v what="$2" -v first="$first" -v both="$both" -v second="$second" 'BEGIN {
    sum = first + second
    printf "%s: %.2f and %.2f MB/s, together %.2f, %.2f of the sum (at least %s)\n", what, first, second, both, both / sum, least
    exit both < least * sum
  }'
}

export FI_GAUDI_RAIL_CHUNK=32768
shape 1 20
shape 2 20
check 0.95 tagged
check 0.95 read
check 0.95 write
shape 1 10
shape 2 30
check 0.9 tagged
check 0.9 read
check 0.9 write
