# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Messages and RMA in host memory over the verbs provider. Of the tests that only vary sizes one in six: all of
# them run on the machine itself, over tcp.
"$VM_BIN/integration_messages" --gtest_filter='messages.*'
GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=1 "$VM_BIN/integration_messages" --gtest_filter='-messages.*:*_slow.*'
"$VM_BIN/integration_rma" --gtest_filter='rma.*:fence.*:memories/ranges.*'
GTEST_TOTAL_SHARDS=5 GTEST_SHARD_INDEX=1 "$VM_BIN/integration_rma" --gtest_filter='modes/*'
"$VM_BIN/integration_connection" --gtest_filter='-*_slow.*'
