#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Upstream's fabtests against the provider, server and client on this machine.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
build=$root/build
lists=(unit functional short)
time_limit=60
release=2.x
address=127.0.0.1
only=()
listing=0
from_file=

usage() {
  cat <<'END'
Usage: fabtests/run.sh [OPTION...] [TEST...]

Runs upstream's fabtests, those of libfabric 2.1, with FI_PROVIDER=gaudi, server and client on this machine,
and prints a line for each test and the counts. The tests are those of upstream's own lists, read from its
runfabtests.sh; TEST is one of them as it stands there ("fi_rdm -U"), or just its program ("fi_rdm"),
or "fi_ubertest quick" or "fi_ubertest all": upstream's ubertest with the configuration in fabtests/ubertest
(quick is among the default tests; all takes minutes, so give it --timeout 1200).

  --sets A,B     which of upstream's lists: unit, functional, short, standard (default: the first three)
  --from FILE    the tests in FILE, one a line; # begins a comment
  --libfabric R  built for and run on that release: 2.x (2.1, the default), 1.17 (the system's), 2.x-verbs
                 (2.1 with the verbs provider, which runs the tests: for a machine with an RDMA device),
                 2.x-synapse (2.1, for tests with -D synapseai, on simulated Gaudis, Gaudi2s unless HLSIM_GENERATION
                 says otherwise: the server has the first, the client the second), or 2.x-verbs-synapse (both)
  --address A    the address that the server listens at (default: loopback); of the RDMA device over verbs
  --build DIR    the build folder with the provider (default: build)
  --timeout S    seconds that a test may take (default: 60)
  --list         only lists the tests
  --help         this text

PASS     both sides succeeded
FAIL     one of them did not; the reason is the last thing it said
NOTRUN   the test found that the provider lacks what it needs; counts as a failure
EXCLUDED in fabtests/gaudi.exclude, which names the rule of libfabric that allows it

Exit status: 0 none failed and none was not run, 1 otherwise, 2 bad option, 77 no such libfabric, or no tarball of 2.1.
END
}

while (($#)); do
  case $1 in
    --sets) IFS=, read -ra lists <<<"${2:?--sets wants names}"; shift ;;
    --from) from_file=$(realpath -e "${2:?--from wants a file}") || exit 2; shift ;;
    --build) build=$(cd "${2:?--build wants a folder}" && pwd) || exit 2; shift ;;
    --libfabric) release=${2:?--libfabric wants 1.17 or 2.x}; shift ;;
    --address) address=${2:?--address wants an address}; shift ;;
    --timeout) time_limit=${2:?--timeout wants seconds}; shift ;;
    --list) listing=1 ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
    *) only+=("$1") ;;
  esac
  shift
done

# Builds them once; the log says why if it cannot.
prefix=$("$here/build.sh" --build "$build" --libfabric "$release") || exit $?

# The tests of one of upstream's lists, one a line.
upstream_list() { # NAME
  sed -n "/^$1_tests=(/,/^)/p" "$prefix/runfabtests.sh" | sed -n 's/^[[:space:]]*"\(.*\)".*/\1/p'
}

all_tests() {
  if [[ $from_file ]]; then
    sed 's/[[:space:]]*#.*//; /^$/d' "$from_file"
    return
  fi
  local list test
  for list in "${lists[@]}"; do upstream_list "$list"; done
  echo "fi_ubertest quick"
  for test in "${only[@]}"; do [[ $test != "fi_ubertest all" ]] || echo "$test"; done
}

is_wanted() { # TEST
  ((${#only[@]} == 0)) && return 0
  local wanted
  for wanted in "${only[@]}"; do [[ $1 == "$wanted" || ${1%% *} == "$wanted" ]] && return 0; done
  return 1
}

# The rule that excludes a test, or nothing. Lines of the file: regular expression, tab, rule.
exclusion() { # TEST
  local pattern rule
  while IFS=$'\t' read -r pattern rule; do
    [[ -z $pattern || $pattern == \#* ]] && continue
    [[ $1 =~ ^($pattern)$ || "$release: $1" =~ ^($pattern)$ ]] && echo "$rule" && return
  done <"$here/gaudi.exclude"
}

export FI_PROVIDER=gaudi FI_PROVIDER_PATH=$build/prov FI_GAUDI_CORE=${FI_GAUDI_CORE:-tcp}
[[ $release != *-verbs* ]] || FI_GAUDI_CORE=verbs
export LD_LIBRARY_PATH=$prefix/libfabric${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
devices=
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work" ${devices:+"$devices"}' EXIT
if [[ $release == *-synapse ]]; then
  LD_LIBRARY_PATH=$build/util/hlsim:$LD_LIBRARY_PATH
  devices=$(mktemp -d /dev/shm/hlsim-fabtests-XXXXXX)
  export HLSIM_DIR=$devices HLSIM_DEVICES=2 FI_GAUDI_HLTHUNK=$build/util/hlsim/libhl-thunk.so
fi
# What a test or a library leaves when it crashes goes with that folder.
cd "$work" || exit 2
readonly enodata=61 enosys=38

# The sizes of fabtests' own default (shared.c, def_test_sizes), named: without them each side allocates and clears a
# gigabyte for the largest that could be asked for, most of what a test takes.
readonly default_sizes=l:64,256,1024,4096,65536,1048576

takes_sizes() { # COMMAND...
  [[ " ${*:2} " != *" -S "* ]] || return
  case $1 in
    *_pingpong | *_bw | fi_rdm_atomic | fi_flood | fi_inject_test | fi_unexpected_msg | fi_multi_ep) ;;
    *) return 1 ;;
  esac
}

is_unit() {
  case ${1%% *} in *_test) [[ $1 != fi_inject_test* ]] ;; *) return 1 ;; esac
}

run_unit() { # COMMAND...
  timeout -k 5 "$time_limit" "$prefix/bin/$1" "${@:2}" -p gaudi >"$work/server" 2>&1
  statuses=($?)
}

# It listens for the connections of the test, or first for its client's words: at 9228, 3000 or 2710, unless it is for
# connections over RDMA, which only rdma-core's tool shows.
listens() {
  grep -qE '^ *[0-9]+: [0-9A-F]+:(240C|0BB8|0A96) [0-9A-F]+:0000 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null && return
  [[ $FI_GAUDI_CORE == verbs && $(rdma resource show cm_id) == *"state LISTEN"* ]]
}

# A client asks once, and starting takes longer than any fixed time now and then, on a busy machine or an emulated one.
wait_for_server() { # PID
  local end=$((SECONDS + 10))
  until listens || ! kill -0 "$1" 2>/dev/null || ((SECONDS > end)); do sleep 0.03; done
}

# Synapse takes a device for each process alone: which, by the module id.
of_device() { # NUMBER COMMAND...
  [[ " ${*:2} " != *" -D synapseai "* ]] || echo "-i $1"
}

run_pair() { # COMMAND...
  local first second
  read -ra first <<<"$(of_device 0 "$@")"
  read -ra second <<<"$(of_device 1 "$@")"
  timeout -k 5 "$time_limit" "$prefix/bin/$1" "${@:2}" "${first[@]}" -p gaudi -s "$address" >"$work/server" 2>&1 &
  local server=$!
  wait_for_server $server
  timeout -k 5 "$time_limit" "$prefix/bin/$1" "${@:2}" "${second[@]}" -p gaudi -s "$address" "$address" >"$work/client" 2>&1
  statuses=($?)
  # A server whose client failed may wait for ever.
  ((statuses[0] == 0)) || { sleep 0.5; kill $server 2>/dev/null; }
  wait $server
  statuses+=($?)
}

# The server takes its orders from the client, which reads the configuration.
run_ubertest() { # CONFIGURATION
  timeout -k 5 "$time_limit" "$prefix/bin/fi_ubertest" -x >"$work/server" 2>&1 &
  local server=$!
  wait_for_server $server
  timeout -k 5 "$time_limit" "$prefix/bin/fi_ubertest" -u "$here/ubertest/$1.test" "$address" >"$work/client" 2>&1
  statuses=($?)
  ((statuses[0] == 0)) || { sleep 0.5; kill $server 2>/dev/null; }
  wait $server
  statuses+=($?)
  # It succeeds whatever it skipped.
  grep -q '^Success: [1-9]' "$work/client" && grep -q '^Skipped: 0' "$work/client" || statuses+=(1)
}

# PASS, FAIL or NOTRUN by the exit statuses of the sides.
verdict() {
  local status result=PASS
  for status in "${statuses[@]}"; do
    case $status in
      0) ;;
      "$enodata" | "$enosys") [[ $result == FAIL ]] || result=NOTRUN ;;
      143) ;; # ended because the other side had failed
      *) result=FAIL ;;
    esac
  done
  echo $result
}

reason() {
  ((statuses[0] == 124 || statuses[0] == 137)) && { echo "not done after $time_limit s"; return; }
  grep -hv '^[[:space:]]*$' "$work/client" "$work/server" 2>/dev/null | grep -hiE 'err|fail|abort|not |fi_' | tail -n 1 | cut -c1-110
}

declare -A count=([PASS]=0 [FAIL]=0 [NOTRUN]=0 [EXCLUDED]=0)
while read -r test <&3; do
  is_wanted "$test" || continue
  ((listing)) && { echo "$test"; continue; }
  result='' why=$(exclusion "$test") statuses=()
  if [[ $why ]]; then
    result=EXCLUDED
  else
    start=$SECONDS
    read -ra words <<<"${test//GOOD_ADDR/$address}"
    words=("${words[@]//SERVER_ADDR/$address}")
    ! takes_sizes "${words[@]}" || words+=(-S "$default_sizes")
    : >"$work/client"
    if is_unit "$test"; then
      run_unit "${words[@]}"
    elif [[ ${words[0]} == fi_ubertest ]]; then
      run_ubertest "${words[1]}"
    else
      run_pair "${words[@]}"
    fi
    result=$(verdict)
    why="$((SECONDS - start)) s"
    [[ $result == PASS ]] || why+="  $(reason)"
  fi
  count[$result]=$((count[$result] + 1))
  printf '%-8s %-58s %s\n' "$result" "$test" "$why"
done 3< <(all_tests)

((listing)) && exit 0
printf '\nPASS %d  FAIL %d  NOTRUN %d  EXCLUDED %d  (libfabric %s, core %s)\n' \
  "${count[PASS]}" "${count[FAIL]}" "${count[NOTRUN]}" "${count[EXCLUDED]}" "$release" "$FI_GAUDI_CORE"
((count[PASS] > 0 && count[FAIL] == 0 && count[NOTRUN] == 0))
