# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What zero copy gains. Only the great ratio is demanded: 1.3 times the speed of staging.
# shellcheck source=tests/vm/guest/measure.sh
source "$VM_SOURCE/tests/vm/guest/measure.sh"

size=1M
for _ in 1 2 3; do
  measure rxm $size "verbs;ofi_rxm" host host
  measure zero_copy $size gaudi device:0 device:1
  measure staged $size gaudi device:0 device:1 FI_GAUDI_DMABUF=off
done
gain=$(ratio staged zero_copy $size)
echo "$size: zero copy has $gain times the speed of staging, $(ratio rxm zero_copy $size) times that of verbs;ofi_rxm in host memory"
awk -v gain="$gain" 'BEGIN { exit !(gain >= 1.3) }'
