# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Links between soft-RoCE devices of this guest, for tests that make them slow, lossy or silent (tc(8)). What a device sends to
# itself never leaves it, so a link has one at each end.

links=()

# Makes the link N: devices left$N and right$N at 10.1.N.1 and 10.1.N.2, over a pair of Ethernet devices of these names, although
# both addresses are this guest's.
add_link() { # N
  local left=left$1 right=right$1 network=10.1.$1
  links+=("$1")
  ip link add "$left" type veth peer name "$right"
  add_end "$left" "$network.1" "$right" "$network.2"
  add_end "$right" "$network.2" "$left" "$network.1"
  # Whatever arrives is for here. What is sent is for the link, and only then for here.
  if [[ $(ip rule show pref 0) == *local* ]]; then
    ip rule add pref 3 lookup local
    ip rule del pref 0
  fi
  for end in "$left" "$right"; do
    ip rule add pref 1 iif "$end" lookup local
    ip link set "$end" mtu 9000 up
  done
  ip rule add pref 2 from "$network.1" to "$network.2" lookup "$((100 + 2 * $1))"
  ip rule add pref 2 from "$network.2" to "$network.1" lookup "$((101 + 2 * $1))"
  ip route add "$network.2" dev "$left" table "$((100 + 2 * $1))"
  ip route add "$network.1" dev "$right" table "$((101 + 2 * $1))"
  ip neigh add "$network.2" lladdr "$(<"/sys/class/net/$right/address")" nud permanent dev "$left"
  ip neigh add "$network.1" lladdr "$(<"/sys/class/net/$left/address")" nud permanent dev "$right"
}

add_end() { # DEVICE ADDRESS
  ip address add "$2/24" dev "$1"
  echo 1 >"/proc/sys/net/ipv4/conf/$1/accept_local"
  echo 0 >"/proc/sys/net/ipv4/conf/$1/rp_filter"
  rdma link add "$1" type rxe netdev "$1"
}

# All that there are: for a test's end.
remove_links() {
  for link in "${links[@]}"; do
    rdma link delete "left$link"
    rdma link delete "right$link"
    ip link delete "left$link"
  done
}

# Has a link lose so many packets in a hundred.
lose() { # N PERCENT
  for end in "left$1" "right$1"; do tc qdisc replace dev "$end" root netem loss "$2%" limit 10000; done
}
