# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Memory of a device that does not copy: the NIC alone moves what is in it, and copies what other devices' engines stage.
"$VM_BIN/integration_gaudi3" --gtest_filter='gaudi3.what_a_nic_reaches_needs_no_*'
export HLSIM_GENERATION=3
failed=0
"$VM_BIN/integration_device" --gtest_filter='small_device.*:device.*:*every_byte/3' || failed=1
FI_GAUDI_RNDV=staged "$VM_BIN/integration_device" --gtest_filter='*every_byte/2' || failed=1
GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=0 "$VM_BIN/integration_atomic" --gtest_filter='*device*:-*_slow.*' || failed=1
"$VM_BIN/integration_hcl_client" --gtest_filter='*.exchanges_device_memory_*' || failed=1
exit $failed
