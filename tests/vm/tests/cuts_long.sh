# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A thousand queue pairs that go into the error state under gaudi_stress: what cuts.sh begins with, from one seed after the
# other, until there are so many.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/cuts.sh"
export GAUDI_CUT_EVERY_MS=50

for ((seed = 1; all_cuts < 1000; seed++)); do
  for rails in 1 rxe0,rxe1; do
    export GAUDI_CUT_SEED=$seed
    FI_GAUDI_RAILS=$rails FI_GAUDI_RAIL_CHUNK=4096 cuts_of 1 "$VM_BUILD/util/gaudi_stress" --processes 3 --max-size 64K \
      --seconds 30 --seed "$seed" --operations "$operations"
  done
done
echo "$all_cuts cuts in all: no operation failed, each byte was verified"
