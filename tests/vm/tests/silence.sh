# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A link that carries nothing for seconds, and else loses one packet in a hundred: nothing fails, nothing is lost or comes twice.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1

lose 1 0
stress() {
  FI_LOG_LEVEL=info FI_LOG_PROV=gaudi "$VM_BUILD/util/gaudi_stress" "$@"
}
FI_GAUDI_NIC=right1 stress --server --processes 2 >/run/right 2>&1 &
until ss -ltn | grep 18515 >/dev/null; do
  sleep 0.2
  kill -0 $!
done
FI_GAUDI_NIC=left1 stress 127.0.0.1 --processes 1 --max-size 64K --seconds 25 --seed 4 --operations "$operations" \
  >/run/left 2>/run/left.log &
client=$!
until grep -q 'go directly' /run/left.log; do
  sleep 0.2
  kill -0 $client
done
while kill -0 $client 2>/dev/null; do
  for seconds in 1 3; do
    lose 1 100
    sleep $seconds
    lose 1 1
    sleep 3
  done
done
wait $client || { tail -n 20 /run/left.log /run/right; false; }
tail -n 1 /run/left
# It was under way by then.
grep -c 'is lost (Connection timed out), and is made again' /run/left.log
