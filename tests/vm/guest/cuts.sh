# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What has its queue pairs go into the error state, by tests/tools/cut_links.cpp, over one device or two of them.
source "$VM_SOURCE/tests/vm/guest/second_device.sh"
add_second_device
GAUDI_CUT_REPORT=$(mktemp -d)
export GAUDI_CUT_REPORT
remove_cuts() {
  rm -r "$GAUDI_CUT_REPORT"
  remove_second_device
}
trap remove_cuts EXIT
with_cuts="$VM_BUILD/tests/tools/libgaudi-cut-links.so $LD_PRELOAD"

# Fails where its processes made fewer than LEAST; shows the last line of what it says. The sum of all is in all_cuts.
all_cuts=0
cuts_of() { # LEAST COMMAND...
  local least=$1 cuts=0 of_one
  shift
  LD_PRELOAD=$with_cuts "$@" | tail -n 1
  for report in "$GAUDI_CUT_REPORT"/cuts.*; do
    of_one=$(<"$report")
    cuts=$((cuts + of_one))
  done
  rm "$GAUDI_CUT_REPORT"/cuts.*
  echo "$cuts cuts"
  all_cuts=$((all_cuts + cuts))
  ((cuts >= least))
}
