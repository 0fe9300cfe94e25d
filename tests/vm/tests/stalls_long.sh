# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What links that fail cost: a stream of messages, each byte of which is verified, over one or two rails while connections are
# cut, packets are lost, or a link is silent or down for seconds. A table says how fast it is beside one that nothing is done to,
# how often connections and rails were lost, and for how long nothing got on, the outage of a link included. An operation that fails, or a wrong byte, is an
# error. The times are those of emulated guests, which may do nothing for a while by themselves: the rows without a fault say so.
source "$VM_SOURCE/tests/vm/guest/links.sh"
source "$VM_SOURCE/tests/vm/guest/stress.sh"
work=$(mktemp -d)
trap 'remove_links; rm -r "$work"' EXIT
add_link 1
add_link 2
export FI_LOG_LEVEL=info FI_LOG_PROV=gaudi FI_GAUDI_RAIL_CHUNK=65536 FI_GAUDI_RECONNECT_TIMEOUT=60
outage=2 # seconds of a link that is silent, or down
cutter=$VM_BUILD/tests/tools/libgaudi-cut-links.so
export GAUDI_CUT_EVERY_MS=500

# How long a link carries nothing, which is more than it is told to be: the commands take their time.
outage_of() { # ENDING COMMAND...
  local ending=$1 start=$EPOCHREALTIME
  shift
  "$@"
  sleep "$outage"
  "$ending"
  awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.0f\n", (to - from) * 1000 }' >>"$work/outages"
}
come_back() {
  ip link set right1 up
  add_way right1 left1 10.1.1.1 103
}

# Each does it once, or is there while it is done.
nothing() { sleep 1; }
cuts() { sleep 1; }
loss() { sleep 1; }
silence() {
  sleep 3
  outage_of speak lose 1 100
}
speak() { lose 1 0; }
down() {
  sleep 3
  outage_of come_back ip link set right1 down
}

# Prints MB/s and the longest stall in milliseconds; the logs of both ends are in $work.
stream() { # CORE DEVICES FAULT
  local core=$1 devices=$2 fault=$3 side=("$VM_BUILD/util/gaudi_perf" --timeout 120) server client
  export FI_GAUDI_CORE=$core
  FI_GAUDI_NIC=right1 FI_GAUDI_RAILS=${devices//left/right} "${side[@]}" >/dev/null 2>"$work/right.log" &
  server=$!
  until ss -ltn | grep 18515 >/dev/null; do
    sleep 0.1
    kill -0 $server
  done
  FI_GAUDI_NIC=left1 FI_GAUDI_RAILS=$devices "${side[@]}" --size 256K --iters 16 --window 4 --duration 6 --check --stalls \
    --csv 127.0.0.1 >"$work/result" 2>"$work/left.log" &
  client=$!
  while kill -0 $client 2>/dev/null; do "$fault"; done
  if ! wait $client || ! wait $server; then
    grep -hE 'gaudi_perf:|is lost|goes on|again' "$work"/*.log | tail -n 20 >&2
    return 1
  fi
  python3 -c 'import csv, sys; r = next(csv.DictReader(sys.stdin)); print(r["MB_per_s"], float(r["longest_stall_us"]) / 1000)' \
    <"$work/result"
}

row() { # CORE DEVICES FAULT
  local core=$1 devices=$2 fault=$3 preload=$LD_PRELOAD result rate stall rails lost moved longest
  [[ $fault != cuts ]] || preload="$cutter $preload"
  [[ $fault != loss ]] || lose 1 1
  echo 0 >"$work/outages"
  result=$(LD_PRELOAD=$preload stream "$core" "$devices" "$fault")
  lose 1 0
  read -r rate stall <<<"$result"
  [[ $fault != nothing ]] || undisturbed=$rate
  rails=$(awk -F, '{ print NF }' <<<"$devices")
  lost=$(cat "$work"/*.log | grep -cE 'is lost( \(|: the others)' || true)
  moved=$(grep -c 'goes on over another link' "$work/left.log" || true)
  longest=$(sort -n "$work/outages" | tail -n 1)
  awk -v core="$core" -v rails="$rails" -v fault="$fault" -v rate="$rate" -v of="$undisturbed" -v lost="$lost" -v moved="$moved" \
    -v outage="$longest" -v stall="$stall" 'BEGIN {
      printf "%-5s %5s  %-8s %8.1f %6.2f %5d %6d %10d %9.0f\n", core, rails, fault, rate, rate / of, lost, moved, outage, stall
    }'
}

printf '%-5s %5s  %-8s %8s %6s %5s %6s %10s %9s\n' core rails fault MB/s ratio lost moved 'outage ms' 'stall ms'
for core in tcp verbs; do
  for devices in left1 left1,left2; do
    for fault in nothing cuts loss silence; do
      row "$core" "$devices" "$fault"
    done
    # Soft-RoCE's queue pair for connection requests stays in error where one could not be sent.
    [[ $core != tcp ]] || row "$core" "$devices" down
  done
done
echo "lost: connections and rails, as both ends tell; outage and stall: the longest; no operation failed, each byte was verified"
