# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What tests of links that fail have gaudi_stress do.

# All that goes on over a connection; where one is made again on purpose, operations may fail.
operations=send,inject,senddata,tsend,tinject,tsenddata,write,writedata,read,atomic,fetch,compare,cancel
operations+=,peek,claim,discard,multirecv,ranges,counters
# An emulated guest may take long to do nothing.
export FI_GAUDI_RECONNECT_TIMEOUT=3600
unset FI_GAUDI_LINK_TIMEOUT

# Starts it, without end, between the ends of links (links.sh) with these rails, left1 first, and returns when the log of the left end,
# /run/left.log, says PATTERN.
start_stress() { # RAILS PATTERN
  local stress=$VM_BUILD/util/gaudi_stress
  export FI_LOG_LEVEL=info FI_LOG_PROV=gaudi
  FI_GAUDI_NIC=right1 FI_GAUDI_RAILS=${1//left/right} "$stress" --server --processes 2 >/run/right 2>&1 &
  server=$!
  until ss -ltn | grep 18515 >/dev/null; do
    sleep 0.2
    kill -0 "$server"
  done
  FI_GAUDI_NIC=left1 FI_GAUDI_RAILS=$1 "$stress" 127.0.0.1 --processes 1 --max-size 64K --seconds 3600 --seed 4 \
    --operations "$operations" >/run/left 2>/run/left.log &
  client=$!
  until grep -q "$2" /run/left.log; do
    sleep 0.2
    stress_goes_on
  done
}

# Fails once it has ended.
stress_goes_on() {
  kill -0 "$client" 2>/dev/null && return
  tail -n 20 /run/left /run/left.log /run/right
  return 1
}

# Its verdict, after the round under way.
end_stress() {
  kill -INT "$server"
  if ! wait "$client" || ! wait "$server"; then
    tail -n 20 /run/left /run/left.log /run/right
    return 1
  fi
  tail -n 1 /run/left
}
