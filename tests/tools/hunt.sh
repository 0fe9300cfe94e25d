#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Looks for tests that fail by chance; see usage().
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build
times=20
load=2
jobs=$(nproc)
pinned=no
delays=no
memory=0
long=(-LE long)
regex=.

usage() {
  cat <<'END'
Usage: tests/tools/hunt.sh [--build DIR] [--times N] [--load N] [--jobs N] [--one-cpu] [--memory MIB] [--delays]
                           [--long] [REGEX]

Repeats the tests whose names match REGEX (default: all that CI runs) on a machine that is kept busy,
and reports every failure with its log. A new or changed test is to pass 200 times before it is committed.

  --build DIR   folder of the build (default: build); build/asan and build/tsan serve as well, and
                build/joined, which has all three where run-tests.sh has run
  --times N     rounds (default 20)
  --load N      processes beside them that only use CPU (default 2)
  --jobs N      tests at once (default: as many as there are CPUs)
  --one-cpu     everything on one CPU
  --memory MIB  a process beside them that writes to so much memory over and over
  --delays      threads sleep at random before locks and socket calls (chaos.cpp, preloaded; the
                round's number is the seed). Not for sanitizer builds
  --long        those with the label long, too

Results: DIR/hunt/ has a log for each round with failures.
Exit status: 0 no test failed, 1 some did, 2 bad option.
END
}

while (($#)); do
  case $1 in
    --build) build=${2:?--build wants a folder}; shift ;;
    --times) times=${2:?--times wants a number}; shift ;;
    --load) load=${2:?--load wants a number}; shift ;;
    --jobs) jobs=${2:?--jobs wants a number}; shift ;;
    --memory) memory=${2:?--memory wants a number of MiB}; shift ;;
    --one-cpu) pinned=yes ;;
    --delays) delays=yes ;;
    --long) long=() ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "unknown option: $1 (see --help)" >&2; exit 2 ;;
    *) regex=$1 ;;
  esac
  shift
done
[[ -f $build/CTestTestfile.cmake ]] || { echo "no build in $build: util/run-tests.sh makes one" >&2; exit 2; }
build=$(cd "$build" && pwd)
# shellcheck source=tests/tools/sanitizer_options.sh
source "$root/tests/tools/sanitizer_options.sh"
set_sanitizer_options 50

beside=()
stop_load() { ((${#beside[@]} == 0)) || kill "${beside[@]}" 2>/dev/null || true; }
trap stop_load EXIT
start_load() {
  local i
  for ((i = 0; i < load; ++i)); do
    (while :; do :; done) &
    beside+=($!)
  done
  ((memory == 0)) && return
  python3 -c 'import sys
block = bytearray(int(sys.argv[1]) << 20)
while True:
    for i in range(0, len(block), 4096): block[i] = (block[i] + 1) & 255' "$memory" &
  beside+=($!)
}

[[ $pinned == no ]] || taskset -cp 0 $$ >/dev/null
start_load
results=$build/hunt
rm -rf "$results"
mkdir -p "$results"
failed=0
for ((round = 1; round <= times; ++round)); do
  log=$results/round-$round.log began=$SECONDS
  chaos=()
  [[ $delays == no ]] || chaos=(env LD_PRELOAD="$build/tests/tools/libgaudi-chaos.so" GAUDI_CHAOS_SEED="$round")
  if "${chaos[@]}" ctest --test-dir "$build" -R "$regex" "${long[@]}" -j "$jobs" --output-on-failure --no-tests=error >"$log" 2>&1; then
    echo "round $round of $times: $(sed -n 's/^100% tests passed.* out of \(.*\)/\1 tests passed/p' "$log") in $((SECONDS - began)) s"
    rm "$log"
    continue
  fi
  failed=$((failed + 1))
  echo "round $round of $times: failed, $log"
  sed -n '/tests FAILED:/,/^Errors while/p' "$log" | grep -E '^[[:space:]]+[0-9]+ - ' || tail -n 3 "$log"
done
echo "$times rounds, $failed with failures; beside $load busy processes, delays: $delays, one CPU: $pinned, memory: $memory MiB"
((failed == 0))
