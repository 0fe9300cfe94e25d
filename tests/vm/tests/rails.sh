# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Long transfers over two RDMA devices, each with keys of its own: host memory, and device memory without staging. A
# part of the tests: all of them run on the machine itself, over tcp.
ip link add eth1 type dummy
ip link set eth1 mtu 9000 up
ip address add 10.0.1.1/24 dev eth1
rdma link add rxe1 type rxe netdev eth1
remove_second() {
  rdma link delete rxe1
  ip link delete eth1
}
trap remove_second EXIT

received() {
  cat /sys/class/infiniband/rxe1/ports/1/hw_counters/rcvd_pkts
}

export GTEST_TOTAL_SHARDS=6 GTEST_SHARD_INDEX=2
for name in messages device; do
  before=$(received)
  "$VM_SOURCE/tests/integration/over_rails.sh" "$VM_BIN/integration_$name" 2 rxe0,rxe1
  packets=$(($(received) - before))
  echo "$packets packets at the second device"
  ((packets > 100))
done
