# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The ratios of other sizes and of host memory, for an idle machine: three rounds, nothing is demanded.
# shellcheck source=tests/vm/guest/measure.sh
source "$VM_SOURCE/tests/vm/guest/measure.sh"

for size in 64K 1M 16M; do
  for _ in 1 2 3; do
    measure rxm $size "verbs;ofi_rxm" host host
    measure zero_copy $size gaudi device:0 device:1
    measure unflushed $size gaudi device:0 device:1 FI_GAUDI_FLUSH=off
    measure staged $size gaudi device:0 device:1 FI_GAUDI_DMABUF=off
  done
  echo "$size: zero copy has $(ratio staged zero_copy $size) times the speed of staging, $(ratio rxm zero_copy $size)" \
    "($(ratio rxm unflushed $size) with FI_GAUDI_FLUSH=off) times that of verbs;ofi_rxm in host memory"
done
for size in 8 4K; do
  for _ in 1 2 3; do
    measure rxm $size "verbs;ofi_rxm" host host
    measure host $size gaudi host host
  done
  echo "$size: a host message takes $(ratio host rxm $size) times as long as with verbs;ofi_rxm"
done
