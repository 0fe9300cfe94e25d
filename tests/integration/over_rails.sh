#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs one of the integration programs with more than one connection to each peer (FI_GAUDI_RAILS), as between hosts, and
# looks into the log whether they were made.
#   over_rails.sh PROGRAM RAILS
set -euo pipefail

program=$1 rails=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export FI_GAUDI_RAILS=$rails FI_GAUDI_RAIL_CHUNK=4096 FI_GAUDI_IPC=off FI_LOG_LEVEL=info FI_LOG_PROV=gaudi
if ! "$program" --gtest_filter='-*_slow.*' 2>"$log"; then
  grep -v ':gaudi:.*<info>' "$log" | tail -n 40
  exit 1
fi
made=$(grep -c "rail $((rails - 1)) to .* is up" "$log") || true
((made > 0)) || { echo "no connection had $rails rails"; exit 1; }
echo "$made connections had $rails rails"
