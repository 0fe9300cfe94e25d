#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libfabric's own fi_pingpong over the provider, verified, at all its sizes.
#   pingpong.sh system [TYPE]       the installed libfabric
#   pingpong.sh FOLDER [TYPE]       a libfabric 2.x installed in FOLDER (GAUDI_LIBFABRIC2 overrides)
# TYPE is that of the endpoint, rdm (the default) or msg.
# TEST_PROVIDER names another provider. 77: skipped, with the reason.
set -euo pipefail

provider=${TEST_PROVIDER:-gaudi}
port=$((20000 + $$ % 12000)) # below those that the kernel gives to connections
tool=fi_pingpong
type=${2:-rdm}

skip() {
  echo "skipped: $*"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}

if [[ $1 != system ]]; then
  folder=${GAUDI_LIBFABRIC2:-$1}
  tool=$folder/bin/fi_pingpong
  [[ -x $tool ]] || skip "no libfabric 2.x (util/get-libfabric-2.sh builds one)"
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
command -v "$tool" >/dev/null || skip "fi_pingpong is not installed (package libfabric-bin)"

log=$(mktemp)
trap 'rm -f "$log"; kill "$server" 2>/dev/null || true' EXIT
timeout 100 "$tool" -p "$provider" -e "$type" -c -S all -I 20 -B "$port" >"$log" 2>&1 &
server=$!

# The server says nothing when it is ready, so the client comes again until it finds it.
good=false
for _ in {1..50}; do
  if timeout 100 "$tool" -p "$provider" -e "$type" -c -S all -I 20 -P "$port" 127.0.0.1 >"$log.client" 2>&1; then
    good=true
    break
  fi
  kill -0 "$server" 2>/dev/null || break
  grep -q 'Connection refused\|Unable to connect' "$log.client" || break
  sleep 0.1
done
cat "$log.client"
rm -f "$log.client"
$good || { echo "the client failed; the server said:"; cat "$log"; exit 1; }
wait "$server" || { echo "the server failed:"; cat "$log"; exit 1; }
# Its exit status does not tell whether every size ran.
grep -q '^6m ' "$log" || { echo "the largest sizes are missing:"; cat "$log"; exit 1; }
