# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Peers on one host that share memory: device memory that the NIC reaches goes by the NIC all the same, in its loopback and
# without a copy; what it does not reach goes by slots that both devices have.
export FI_GAUDI_IPC=auto
GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=0 "$VM_BUILD/tests/vm/zero_copy" --gtest_filter='pairs/long_message.*'
"$VM_BIN/integration_local_device" --gtest_filter='*/on'
"$VM_BIN/integration_local"
