#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A fuzz target as a test:  run.sh TARGET FOLDER-FOR-FOUND CORPUS
# The same inputs each time, unless GAUDI_FUZZ_SECONDS asks for a time to look for new ones.
set -euo pipefail

target=$1 found=$2 corpus=$3
options=(-timeout=30 -print_final_stats=1 -verbosity=0)
if [[ -n ${GAUDI_FUZZ_SECONDS:-} ]]; then
  exec "$target" "${options[@]}" -max_total_time="$GAUDI_FUZZ_SECONDS" "$found" "$corpus"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$target" "${options[@]}" -seed=1 -runs=40000 "$scratch" "$corpus"
