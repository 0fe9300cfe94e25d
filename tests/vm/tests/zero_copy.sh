# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Device memory over verbs: the NIC reads and writes it itself, and a sample of the device tests of
# all sizes and places.
"$VM_BUILD/tests/vm/zero_copy" --gtest_filter='-refused.*'
GTEST_TOTAL_SHARDS=7 GTEST_SHARD_INDEX=0 "$VM_BIN/integration_device"
