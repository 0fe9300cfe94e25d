# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Two RDMA devices at each end, with keys of their own, and a link that carries nothing until the sessions have gone on over the
# other one. Then they come back. Nothing fails, nothing is lost or comes twice.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
add_link 2
export FI_GAUDI_RAIL_CHUNK=4096
start_stress left1,left2 'rail 1 .* is up'

# Those of the left end with one of the right's processes.
moves() {
  grep -c 'goes on over another link' /run/left.log || true
}

lose 1 100
until (($(moves) >= 2)); do
  sleep 0.5
  stress_goes_on
done
# Either end may find that the first link is there again.
lose 1 0
until (($(moves) >= 4)); do
  sleep 0.5
  stress_goes_on
done
sleep 2
echo "$(moves) moves of sessions"
end_stress
