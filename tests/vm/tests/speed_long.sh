# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The ratios of other sizes and of host memory, medians of several rounds. Where instructions are counted (run.sh --icount) the
# goals are demanded, since nothing else on the machine has a part in them; else nothing is, for an idle machine.
# shellcheck source=tests/vm/guest/measure.sh
source "$VM_SOURCE/tests/vm/guest/measure.sh"

rounds=3
# Of the speed of rxm. The longer a message, the less there is in it but bytes, which take as long for both; two runs differ
# by a per cent, so that 16M may miss it by that.
declare -A of_rxm=([64K]=1.0 [1M]=1.0 [16M]=1.0)
missed=0

# What is demanded of the median.
at_least() { # GOAL LABEL LABEL SIZE
  local goal=$1 found
  shift
  [[ $VM_ICOUNT == yes ]] || return 0
  found=$(ratio "$@")
  awk -v found="$found" -v goal="$goal" 'BEGIN { exit !(found >= goal) }' && return
  echo "$3: $1 over $2 is $found, and should be $goal at least"
  missed=1
}

for size in 8 4K; do
  ping_pongs host rxm $size gaudi "verbs;ofi_rxm"
  echo "$size: a host message takes $(spread host rxm $size) times as long as with verbs;ofi_rxm"
  at_least 1.0 rxm host $size
done
for size in 64K 1M 16M; do
  for ((round = 0; round < rounds; ++round)); do
    measure rxm $size "verbs;ofi_rxm" host host
    measure zero_copy $size gaudi device:0 device:1
    measure unflushed $size gaudi device:0 device:1 FI_GAUDI_FLUSH=off
    measure staged $size gaudi device:0 device:1 FI_GAUDI_DMABUF=off
  done
  echo "$size: zero copy has $(spread staged zero_copy $size) times the speed of staging, and" \
    "$(spread rxm zero_copy $size) ($(ratio rxm unflushed $size) with FI_GAUDI_FLUSH=off) times that of" \
    "verbs;ofi_rxm in host memory"
  at_least "${of_rxm[$size]}" rxm zero_copy $size
  at_least 1.3 staged zero_copy $size
done
exit $missed
