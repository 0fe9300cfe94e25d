#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The same seeds give the same schedules in another process, wherever its memory lies: without that no failure can be looked at again.
#   replays.sh SIM
set -euo pipefail

for kind in "" --forged; do
  digests=()
  for _ in 1 2; do
    output=$("$1" --schedules 1000 --first-seed 500000 ${kind:+"$kind"})
    digests+=("${output%%$'\n'*}")
  done
  if [[ ${digests[0]} != "${digests[1]}" ]]; then
    printf '%s\n' "not the same twice:" "${digests[@]}"
    exit 1
  fi
done
