# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Queue pairs that go into the error state all the time, at one end, in the middle of everything that gaudi_stress does: nothing
# fails, nothing is lost or comes twice. All share one receive queue, so neither NIC tells of it.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/cuts.sh"
export GAUDI_CUT_MOST=60

export GAUDI_CUT_EVERY_MS=100
for rails in 1 rxe0,rxe1; do
  FI_GAUDI_RAILS=$rails FI_GAUDI_RAIL_CHUNK=4096 cuts_of 20 "$VM_BUILD/util/gaudi_stress" --processes 3 --max-size 64K \
    --seconds 12 --seed 5 --operations "$operations"
done

# Both ends sleep between messages, and nothing but a look at the connection wakes them.
pingpong() {
  local side=("$VM_BUILD/deps/fabtests-2.1/bin/fi_rdm_tagged_pingpong" -p gaudi -c sread -S 64 -I 2000)
  timeout 100 "${side[@]}" -s 10.0.0.1 &
  sleep 3
  timeout 100 "${side[@]}" 10.0.0.1
  wait $!
}
GAUDI_CUT_EVERY_MS=20 GAUDI_CUT_MOST=8 cuts_of 1 pingpong

# The flushes of device memory go over the loopback, which is not cut, beside connections that are.
FI_GAUDI_IPC=off FI_GAUDI_RAILS=rxe0,rxe1 GAUDI_CUT_EVERY_MS=20 GAUDI_CUT_MOST=4 cuts_of 2 "$VM_BIN/integration_hcl_client" \
  --gtest_filter='hcl_client.exchanges_device_memory_of_a_registered_pool_with_flushes'
