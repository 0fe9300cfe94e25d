# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Over tcp and two links: sockets that the kernel ends (ss -K) on one or the other, and a link that loses packets, or all of them
# for seconds, or until the session has gone on over the other one. Nothing fails, nothing is lost or comes twice.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
add_link 2
export FI_GAUDI_CORE=tcp FI_GAUDI_RAIL_CHUNK=4096 FI_GAUDI_EAGER_SIZE=16384
start_stress left1,left2 'rail 1 .* is up'
losses() {
  grep -c 'is lost (.*), and is made again' /run/left.log || true
}
until (($(losses) >= 3)) && grep -q 'rail 1 .* is lost' /run/left.log; do
  for link in 1 2 1 1 2 1 2 2; do
    ss -K state established src "10.1.$link.1" >/dev/null
    sleep 0.3
  done
  lose 1 100
  sleep 2
  lose 1 1
  sleep 1
  stress_goes_on
done

moves() {
  grep -c 'goes on over another link' /run/left.log || true
}
enough=$(($(moves) + 3))
# Where the sessions went when the first link was lost above.
link=2
until (($(moves) >= enough)); do
  before=$(moves)
  lose "$link" 100
  # None moves that is on the other link, or idle.
  end=$((SECONDS + 5))
  until (($(moves) > before || SECONDS >= end)); do sleep 0.2; done
  stress_goes_on
  lose "$link" 1
  link=$((3 - link))
done
end_stress
