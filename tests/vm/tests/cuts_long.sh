# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A thousand queue pairs that go into the error state under gaudi_stress: what cuts.sh begins with, from one seed after the
# other, until there are so many; with staging, too, of memory that no NIC is given.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/cuts.sh"
export GAUDI_CUT_EVERY_MS=50

for ((seed = 1; all_cuts < 1000; seed++)); do
  export GAUDI_CUT_SEED=$seed
  stress=("$VM_BUILD/util/gaudi_stress" --processes 3 --max-size 64K --seconds 30 --seed "$seed" --operations "$operations")
  for rails in 1 rxe0,rxe1; do
    FI_GAUDI_RAILS=$rails FI_GAUDI_RAIL_CHUNK=4096 cuts_of 1 "${stress[@]}"
  done
  FI_GAUDI_DMABUF=off FI_GAUDI_RAILS=rxe0,rxe1 FI_GAUDI_RAIL_CHUNK=4096 cuts_of 1 "${stress[@]}" --memory device
done
echo "$all_cuts cuts in all: no operation failed, each byte was verified"
