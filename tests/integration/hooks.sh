#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# An integration program under each of libfabric's hooks (fi_hook(7)), which sit on top of the provider and of its core.
#   hooks.sh PROGRAM system            the hooks that Debian's 1.17 has
#   hooks.sh PROGRAM FOLDER            those of a libfabric 2.x installed in FOLDER (GAUDI_LIBFABRIC2 overrides)
# 77: skipped, with the reason.
set -euo pipefail

program=$1
hooks=(perf noop debug)
if [[ $2 != system ]]; then
  folder=${GAUDI_LIBFABRIC2:-$2}
  if [[ ! -e $folder/lib/libfabric.so.1 ]]; then
    echo "skipped: no libfabric 2.x (util/get-libfabric-2.sh builds one)"
    [[ ${CI:-} == true ]] && exit 1
    exit 77
  fi
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  hooks+=(trace profile)
fi
# The debug hook takes no other.
export TEST_THREADING=domain TEST_MAX_SIZE=100001
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for hook in "${hooks[@]}"; do
  # Each packet is traced, so of one test only.
  level=trace
  for test in messages.directed_receive_waits_for_its_source every_size.tagged_arrives_whole \
    every_size.unexpected_message_is_kept; do
    FI_HOOK=$hook FI_LOG_LEVEL=$level "$program" --gtest_filter="$test" >"$log" 2>&1 ||
      { tail -n 20 "$log"; echo "FI_HOOK=$hook: $test failed"; exit 1; }
    grep -q '^\[  PASSED  \] 1 test' "$log" || { echo "$test did not run"; exit 1; }
    [[ $level != trace ]] || grep -q "gaudi:fabric:.*Installing $hook hook" "$log" ||
      { echo "FI_HOOK=$hook was not installed"; exit 1; }
    level=warn
  done
  echo "FI_HOOK=$hook: passed"
done
