# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A second RDMA device, rxe1 at 10.0.1.1. What is sent to it has to leave it: rxe0 does not reach it.

add_second_device() {
  ip link add eth1 type dummy
  ip link set eth1 mtu 9000 up
  ip address add 10.0.1.1/24 dev eth1
  rdma link add rxe1 type rxe netdev eth1
}

remove_second_device() {
  rdma link delete rxe1
  ip link delete eth1
}
