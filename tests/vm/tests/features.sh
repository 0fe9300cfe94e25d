# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Wait objects, counters, atomics, progress threads, buffers of many messages and the client that is shaped like HCL over the
# verbs provider, whose queues and events are quite other ones than tcp's. Of the atomics, which are the provider's own
# messages, every third.
failed=0
for program in wait counter multi_recv threads hcl_client; do
  "$VM_BIN/integration_$program" --gtest_filter='-*_slow.*' || failed=1
done
GTEST_TOTAL_SHARDS=3 GTEST_SHARD_INDEX=0 "$VM_BIN/integration_atomic" --gtest_filter='-*_slow.*' || failed=1
exit $failed
