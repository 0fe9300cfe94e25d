# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What zero copy gains: 1.3 times the speed of staging at least. speed_long compares with verbs;ofi_rxm as well.
# shellcheck source=tests/vm/guest/measure.sh
source "$VM_SOURCE/tests/vm/guest/measure.sh"

size=1M
for _ in 1 2 3; do
  measure zero_copy $size gaudi device:0 device:1
  measure staged $size gaudi device:0 device:1 FI_GAUDI_DMABUF=off
done
gain=$(ratio staged zero_copy $size)
echo "$size: zero copy has $gain times the speed of staging"
awk -v gain="$gain" 'BEGIN { exit !(gain >= 1.3) }'
