# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Without the library that lets rdma-core register dma-bufs on soft-RoCE, this NIC's driver refuses
# them: the provider says why, once in each process, and stages.
unset LD_PRELOAD
log=$(mktemp)
FI_LOG_LEVEL=warn "$VM_BUILD/tests/vm/zero_copy" --gtest_filter='refused.is_staged*' 2>"$log" || {
  cat "$log"
  exit 1
}
grep 'cannot read and write the memory' "$log"
[[ $(grep -c "does not register dma-bufs" "$log") == 2 ]] # two ranks
"$VM_BUILD/tests/vm/zero_copy" --gtest_filter='refused.*'
