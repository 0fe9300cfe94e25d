# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Links between soft-RoCE devices of this guest, for tests that make them slow, lossy or silent (tc(8)). What a device sends to
# itself never leaves it, so a link has one at each end.

links=()

# Makes the link N: devices left$N and right$N at 10.1.N.1 and 10.1.N.2, over a pair of Ethernet devices of these names, although
# both addresses are this guest's.
add_link() { # N
  # Whatever arrives is for here. What is sent is for the link, and only then for here.
  if [[ $(ip rule show pref 0) == *local* ]]; then
    ip rule add pref 3 lookup local
    ip rule del pref 0
  fi
  ip link add "left$1" type veth peer name "right$1"
  links+=("$1")
  add_end "left$1" "10.1.$1.1"
  add_end "right$1" "10.1.$1.2"
  change_rules add "$1"
  add_way "left$1" "right$1" "10.1.$1.2" "$((100 + 2 * $1))"
  add_way "right$1" "left$1" "10.1.$1.1" "$((101 + 2 * $1))"
}

add_end() { # DEVICE ADDRESS
  ip address add "$2/24" dev "$1"
  echo 1 >"/proc/sys/net/ipv4/conf/$1/accept_local"
  echo 0 >"/proc/sys/net/ipv4/conf/$1/rp_filter"
  ip link set "$1" mtu 9000 up
  # Now, for lose() only to change it: while a device gets its first queue nothing can be sent, and soft-RoCE's queue pair for
  # connection requests takes that for an error, in which it stays.
  tc qdisc add dev "$1" root netem limit 10000
  rdma link add "$1" type rxe netdev "$1"
}

# The rules stay when the devices go.
change_rules() { # add|del N
  ip rule "$1" pref 1 iif "left$2" lookup local
  ip rule "$1" pref 1 iif "right$2" lookup local
  ip rule "$1" pref 2 from "10.1.$2.1" to "10.1.$2.2" lookup "$((100 + 2 * $2))"
  ip rule "$1" pref 2 from "10.1.$2.2" to "10.1.$2.1" lookup "$((101 + 2 * $2))"
}

add_way() { # FROM-DEVICE TO-DEVICE ADDRESS TABLE
  ip route replace "$3" dev "$1" table "$4"
  ip neigh replace "$3" lladdr "$(<"/sys/class/net/$2/address")" nud permanent dev "$1"
}

# All that there are: for a test's end.
remove_links() {
  for link in "${links[@]}"; do
    rdma link delete "left$link"
    rdma link delete "right$link"
    ip link delete "left$link"
    change_rules del "$link"
  done
}

# Has a link lose so many packets in a hundred.
lose() { # N PERCENT
  for end in "left$1" "right$1"; do tc qdisc replace dev "$end" root netem loss "$2%" limit 10000; done
}
