# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Long transfers over two RDMA devices, each with keys of its own: host memory, and device memory without staging and with
# it.
source "$VM_SOURCE/tests/vm/guest/second_device.sh"
trap remove_second_device EXIT
add_second_device

received() {
  cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts
}

# Many long transfers, in which there is time for a rail to be made.
exchange() { # RAILS OPERATION CLIENT-MEMORY SERVER-MEMORY [OPTION...]
  local before packets server=$4 client=(--op "$2" --memory "$3" "${@:5}")
  before=$(received)
  export FI_GAUDI_RAILS=$1 FI_GAUDI_RAIL_CHUNK=65536
  "$VM_BUILD/util/gaudi_perf" --memory "$server" >/dev/null &
  until ss -ltn | grep 18515 >/dev/null; do sleep 0.1; done
  "$VM_BUILD/util/gaudi_perf" "${client[@]}" --size 1M --iters 16 --window 2 10.0.0.1
  wait
  packets=$(($(received) - before))
  echo "$packets packets at the second device"
  ((packets > 1000))
}

# By the NICs behind the first, in all processes.
flushes() {
  "$VM_BUILD/util/gaudi_top" --openmetrics /tmp/metrics --count 1 --interval 0.05
  sed -n 's/^gaudi_fi_rail_flushes_total.* //p' /tmp/metrics | paste -sd + | bc
}

# What a NIC wrote to device memory is there once that NIC has read behind it, and not once another one has.
flush_by_the_second() { # OPERATION
  local client server
  export FI_GAUDI_RAILS=auto FI_GAUDI_RAIL_CHUNK=65536
  "$VM_BUILD/util/gaudi_perf" --memory device:1 >/dev/null &
  server=$!
  until ss -ltn | grep 18515 >/dev/null; do sleep 0.1; done
  "$VM_BUILD/util/gaudi_perf" --op "$1" --memory device:0 --size 256K --iters 500 10.0.0.1 &
  client=$!
  until [[ $(flushes) -gt 0 ]]; do
    kill -0 "$client"
    sleep 0.1
  done
  # What is left of so many would take a minute.
  kill "$client" "$server" || true
  wait
  echo "$1: flushed by the second device"
}

said=$(FI_GAUDI_RAILS=auto "$VM_BUILD/util/gaudi_info")
grep "  rxe0      rxe0 rxe1" <<<"$said"
exchange rxe0,rxe1 tagged host host --check
exchange auto tagged device:0 device:1
exchange auto read device:0 device:1
exchange auto write host host --check
exchange auto write device:0 device:1
for operation in tagged read write; do flush_by_the_second "$operation"; done
FI_GAUDI_RNDV="write" exchange auto tagged host host --check
# Memory that no NIC is given, into slots and out of chunks; more of it, for what is to be there.
FI_GAUDI_DMABUF=off HLSIM_HBM=512M exchange auto tagged device:0 device:1 --check
FI_GAUDI_DMABUF=off exchange auto read device:0 device:1
# These look at every byte.
FI_GAUDI_RAILS=auto FI_GAUDI_RAIL_CHUNK=4096 GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=2 "$VM_BIN/integration_device"
