# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A link that carries nothing for seconds, and else loses one packet in a hundred: nothing fails, nothing is lost or comes twice.
source "$VM_SOURCE/tests/vm/guest/stress.sh"
source "$VM_SOURCE/tests/vm/guest/links.sh"
trap remove_links EXIT
add_link 1
start_stress left1 'go directly'
until (($(grep -c 'is lost (Connection timed out), and is made again' /run/left.log) >= 2)); do
  for seconds in 1 3; do
    lose 1 100
    sleep $seconds
    lose 1 1
    sleep 1
    stress_goes_on
  done
done
end_stress
