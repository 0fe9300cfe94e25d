# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# gaudi_rdma_check: all operations between the memories of two Gaudis and of the host, and what it says and ends with
# where something is wrong.
check=$VM_BUILD/util/gaudi_rdma_check
work=$(mktemp -d)

# Runs both sides; the client's output is in client, its status in $status, the server's in server and $server_status.
run_pair() { # SERVER-OPTIONS CLIENT-OPTIONS
  local server
  # shellcheck disable=SC2086  # options, several
  "$check" --timeout 20 $1 >"$work/server" 2>&1 &
  server=$!
  status=0
  # shellcheck disable=SC2086
  "$check" --timeout 20 $2 10.0.0.1 >"$work/client" 2>&1 || status=$?
  server_status=0
  wait "$server" || server_status=$?
}

expect() { # STATUS PATTERN...: of both sides, and lines of the client
  local wanted=$1 pattern
  shift
  [[ $status == "$wanted" && $server_status == "$wanted" ]] || {
    echo "expected both to end with $wanted, but: client $status, server $server_status"
    cat "$work/client" "$work/server"
    exit 1
  }
  for pattern; do
    grep -Eq "$pattern" "$work/client" || { echo "not in the client's output: $pattern"; cat "$work/client"; exit 1; }
  done
}

sizes=1,70001,1M
run_pair "--memory device:1" "--memory device:0 --size $sizes --iters 4 --out-of-range"
cat "$work/client"
expect 0 'client: device, simulated Gaudi2 0000:19:00.0, rxe0' 'past the server.s memory: passed' \
  '^send +device -> device .* yes$' '^send +device <- device .* yes$' '^write +device -> device .* yes$' \
  '^write_imm +device -> device .* yes$' '^read +device <- device .* yes$'
[[ $(grep -c ' yes$' "$work/client") == 15 ]]
sed 1d "$work/server" | cmp - "$work/client" # but for the line that waits

run_pair "" "--memory device --size 4096,256K --iters 4 --out-of-range"
expect 0 'server: host, rxe0' 'past the server.s memory: passed'
sed -n '/^operation/,$p' "$work/client"
run_pair "--bind 10.0.0.1 --port 4711" "--size 4096,256K --iters 4 --out-of-range --json --bind 10.0.0.1 --port 4711"
expect 0 '"out_of_range": "passed"' '"verified": true'

# What goes to host memory needs no flush (the run above); what goes to a Gaudi has one after each round of each phase, of
# each direction where both have one: 3 for a ping-pong and a stream, else 2, with 4 operations in one round.
[[ $(grep -c '"flushes": 0' "$work/client") == 10 ]]
run_pair "--memory device:1" "--memory device:0 --size 4096 --iters 4 --json"
expect 0 '"verified": true'
[[ $(grep -o '"flushes": [0-9]*' "$work/client" | tr '\n' ' ') == \
  '"flushes": 3 "flushes": 3 "flushes": 2 "flushes": 2 "flushes": 2 ' ]]

# A copy engine that moves no byte: neither side has what it should.
HLSIM_DRY=1 run_pair "--memory device:1" "--op write --size 64 --iters 1"
expect 1 '^write .* NO: byte .* at the server' 'DIFFER'

# No such Gaudi; nobody listens.
status=0
"$check" --memory device:77 10.0.0.1 2>"$work/client" || status=$?
cat "$work/client"
[[ $status == 5 ]]
status=0
"$check" --timeout 1 10.0.0.1 2>"$work/client" || status=$?
cat "$work/client"
[[ $status == 3 ]]

# A driver that does not export, and soft-RoCE as rdma-core knows it, which registers no dma-bufs: the side that
# has device memory says so, and both end with it.
HLSIM_FAULT=no-dmabuf run_pair "--memory device:0" ""
expect 4 'the peer ended: .* driver does not export its memory as dma-buf'
unset LD_PRELOAD
run_pair "" "--memory device:0"
cat "$work/client"
expect 4 'the NIC.s driver does not register dma-bufs' 'To change that'
run_pair "--memory device:0" ""
expect 4 'the peer ended: NIC rxe0 cannot read and write the memory of simulated Gaudi2'
run_pair "" "--size 4096 --iters 2"
expect 0
