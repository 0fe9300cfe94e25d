#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds and runs the tests; ctest's own closing lines end the output.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
# shellcheck source=util/packages.sh
source "$root/util/packages.sh"
# shellcheck source=tests/tools/sanitizer_options.sh
source "$root/tests/tools/sanitizer_options.sh"

usage() {
  cat <<'END'
Usage: util/run-tests.sh [--all | --quick | --asan | --tsan | --fuzz | --coverage | --long]
                         [--help]

Installs the Debian packages that are missing (needs root or sudo only then), builds, and runs tests:
  --all    the default: the linters, and each test where it finds most. Release build (build/):
           all but the provider's unit tests. ASan+UBSan (build/asan): these, and of the others
           what it can find something new in, the kept inputs of the fuzzing and variants of them
           among them. TSan (build/tsan): what has several threads
  --quick  the inner loop: the release build's tests labelled "quick"; some two minutes once built
  --asan   all unit and integration tests built with AddressSanitizer, LeakSanitizer and UBSan
  --tsan   all unit and integration tests built with ThreadSanitizer
  --fuzz   the fuzzing alone
  --coverage
           unit and integration tests but the slow ones, 2,000 schedules of the simulator, and
           which lines and branches of each part of the provider ran (build/coverage)
  --long   hours: --all, with all unit and integration tests under both sanitizers, ten minutes
           of fuzzing for each parser (build/fuzz), a million schedules of the simulator, 500
           mutants of the provider, --coverage, the virtual machine's measurements, MPICH's own
           test suite, which is built for it; build/long-report.txt has what it found, and
           build/mutation-report.txt which mutants survive

A run ends with a table of where its time went. Tests that cannot run here are listed as skipped,
with the reason, before ctest's closing lines; with CI=true in the environment they fail instead.
Gaudis are simulated: no test needs a device.

Exit status: 0 all tests passed, 1 some failed or something could not be built, 2 bad option.
END
}

# Names the step that begins, and notes how long the last one took.
step_name='' step_began=0
steps=$build/steps
step() { # [NAME]
  [[ -z $step_name ]] || echo "$((SECONDS - step_began)) $step_name" >>"$steps"
  step_name=$* step_began=$SECONDS
  [[ -z $* ]] || printf '\n== %s\n' "$*"
}

# Configures and builds one preset. CMake's chatter stays in a log unless it fails.
build_preset() { # PRESET FOLDER [CMAKE-OPTION...]
  step "build: $1"
  mkdir -p "$2"
  cmake -S "$root" --preset "$1" "${@:3}" >"$2/configure.log" 2>&1 || {
    tail -n 25 "$2/configure.log" >&2
    echo "error: CMake could not configure $1; the whole output is in $2/configure.log" >&2
    return 1
  }
  cmake --build "$2"
}

# Another libfabric, and upstream's tests for it and for the system's. The tests that want them say themselves that they
# were skipped, or fail where CI=true.
get_libfabric_2() {
  local release
  "$root/util/get-libfabric-2.sh" --deps "$build/deps" || {
    echo "the tests on libfabric 2.1 cannot run (see above)"
    return
  }
  for release in 1.17 2.x; do
    "$root/fabtests/build.sh" --build "$build" --libfabric "$release" || echo "fabtests on libfabric $release cannot run (see above)" &
  done
  wait
}

# Much of that is done by one process at a time, so it goes on beside the builds.
begin_libfabric_2() {
  local began=$SECONDS
  {
    get_libfabric_2
    echo "$((SECONDS - began)) libfabric 2.1 and its fabtests, beside the builds" >>"$steps"
  } >"$build/libfabric-2.log" 2>&1 &
  trap wait EXIT
}
await_libfabric_2() {
  step "waiting for libfabric 2.1"
  wait
  cat "$build/libfabric-2.log"
}

# One ctest run over several build folders, so that there is one count and one verdict.
join_builds() { # FOLDER...
  joined=$build/joined
  mkdir -p "$joined"
  printf 'subdirs("%s")\n' "$@" >"$joined/CTestTestfile.cmake"
}

# The reason that each test gave which ctest lists as skipped: its last line of output with text in it,
# GoogleTest's own lines apart.
skip_reasons() { # CTEST-OUTPUT LAST-TEST-LOG
  awk '
    NR == FNR { if (sub(/ \((Skipped|Not Run)\)$/, "")) { sub(/^[ \t]*[0-9]+ - /, ""); skipped[++count] = $0 } next }
    /^[0-9]+\/[0-9]+ Test: / { name = $0; sub(/^[^:]*: /, "", name); body = 0; next }
    /^Output:$/ { body = 1; next }
    /^<end of output>/ { body = 0 }
    body && NF && !/^\[|^-----|^Running main|^Note:/ { reason[name] = $0 }
    END { for (i = 1; i <= count; i++) {
      name = skipped[i]
      print "  " name ": " (name in reason ? reason[name] : "it gave no reason") } }
  ' <(sed -n '/did not run:/,/FAILED:/p' "$1") "$2"
}

# Runs ctest; says where the time went and why tests were skipped, and repeats ctest's closing lines after it.
run_ctest() { # FOLDER CTEST-OPTION...
  local folder=$1 log=$1/ctest.log status=0
  shift
  step "tests"
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$jobs" "$@" 2>&1 | tee "$log" || status=1
  step
  printf '\n== where the time went\n'
  "$root/tests/tools/times.py" "$steps" "$log"
  if grep -q 'did not run:' "$log"; then
    step "skipped, and why"
    skip_reasons "$log" "$folder/Testing/Temporary/LastTest.log"
  fi
  echo
  sed -n '/% tests passed, /,$p' "$log"
  return $status
}

# Tests of packages look at optimised code, or at what is installed. The simulator runs fewer schedules: this build takes many times
# as long for each.
measure_coverage() {
  local folder=$build/coverage status=0
  build_preset coverage "$folder"
  "$root/tests/tools/coverage.py" --clear "$folder"
  local -x GAUDI_LIBFABRIC2=$build/deps/libfabric-2.1  # there is none in this folder
  run_ctest "$folder" -L 'unit|integration' -LE 'long|perf|slow' -E '^package|^sim\.more_' || status=1
  "$folder/tests/sim/sim" --schedules 4000 --brief || status=1
  "$folder/tests/sim/sim" --schedules 1000 --forged --brief || status=1
  step
  printf '\n== coverage\n'
  "$root/tests/tools/coverage.py" "$folder"
  return $status
}

mode=all
while (($#)); do
  case $1 in
    --all | --quick | --asan | --tsan | --fuzz | --coverage | --long) mode=${1#--} ;;
    --help | -h) usage; exit 0 ;;
    *) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

# More than there are CPUs, as many wait now and then for a peer or a time; most of those that are quick do.
jobs=$(($(nproc) + 1))
[[ $mode != quick ]] || jobs=$(($(nproc) + 2))

mkdir -p "$build"
: >"$steps"
step "packages"
needed=("${build_packages[@]}" "${test_packages[@]}")
[[ $mode != long ]] || needed+=("${long_packages[@]}")
[[ $mode != coverage ]] || needed+=(gcovr)
install_missing_packages "${needed[@]}"
# By default TSan waits 1 s, which each rank of each case does.
wait=50
[[ $mode != long ]] || wait=1000
set_sanitizer_options $wait

case $mode in
  quick)
    build_preset release "$build"
    run_ctest "$build" -L quick
    ;;
  asan | tsan | fuzz)
    build_preset "$mode" "$build/$mode" -DGAUDI_LONG=ON
    run_ctest "$build/$mode" -L 'unit|integration|fuzz' -LE long
    ;;
  coverage)
    begin_libfabric_2
    await_libfabric_2
    measure_coverage
    ;;
  all | long)
    begin_libfabric_2
    if [[ $mode == all ]]; then
      build_preset release "$build" -DGAUDI_UNIT_TESTS=tools
      sanitizer_tests=(-DGAUDI_LONG=OFF -DGAUDI_UNIT_TESTS=provider)
    else
      build_preset release "$build"
      sanitizer_tests=(-DGAUDI_LONG=ON)
    fi
    for preset in asan tsan; do build_preset $preset "$build/$preset" "${sanitizer_tests[@]}"; done
    await_libfabric_2
    folders=("$build" "$build/asan" "$build/tsan")
    if [[ $mode == all ]]; then
      join_builds "${folders[@]}"
      run_ctest "$joined" -LE long
    else
      build_preset fuzz "$build/fuzz"
      join_builds "${folders[@]}" "$build/fuzz"
      export GAUDI_FUZZ_SECONDS=600
      status=0
      run_ctest "$joined" 2>&1 | tee "$build/long-report.txt" || status=1
      measure_coverage 2>&1 | tee -a "$build/long-report.txt" || status=1
      exit $status
    fi
    ;;
esac
