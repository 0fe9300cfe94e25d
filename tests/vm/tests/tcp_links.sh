# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Over tcp and two links: sockets that the kernel ends (ss -K) on one or the other, and a link that loses packets, or all of them
# for seconds. Nothing fails, nothing is lost or comes twice.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
add_link 2
export FI_GAUDI_CORE=tcp FI_GAUDI_RAIL_CHUNK=4096

lose 1 0
stress() {
  FI_LOG_LEVEL=info FI_LOG_PROV=gaudi "$VM_BUILD/util/gaudi_stress" "$@"
}
FI_GAUDI_NIC=right1 FI_GAUDI_RAILS=right1,right2 stress --server --processes 2 >/run/right 2>&1 &
until ss -ltn | grep 18515 >/dev/null; do
  sleep 0.2
  kill -0 $!
done
FI_GAUDI_NIC=left1 FI_GAUDI_RAILS=left1,left2 stress 127.0.0.1 --processes 1 --max-size 64K --seconds 25 --seed 4 \
  --operations "$operations" >/run/left 2>/run/left.log &
client=$!
until grep -q 'rail 1 .* is up' /run/left.log; do
  sleep 0.2
  kill -0 $client
done
while kill -0 $client 2>/dev/null; do
  for link in 1 2 1 1 2 1 2 2; do
    ss -K state established src "10.1.$link.1" >/dev/null
    sleep 0.3
  done
  lose 1 100
  sleep 2
  lose 1 1
  sleep 3
done
wait $client || { tail -n 20 /run/left.log /run/right; false; }
tail -n 1 /run/left
# It was under way by then.
(($(grep -c 'is lost (.*), and is made again' /run/left.log) >= 3))
grep -q 'rail 1 .* is lost' /run/left.log
