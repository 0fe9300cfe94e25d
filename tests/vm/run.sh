#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs tests in a virtual machine whose kernel does real RDMA on real dma-bufs; see usage().
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=util/packages.sh
source "$root/util/packages.sh"
# shellcheck source=tests/vm/kernel.sh
source "$here/kernel.sh"
# shellcheck source=tests/vm/machine.sh
source "$here/machine.sh"

build=$root/build
accel=auto
compile=yes
limit=1500
guests=
cpus=1
icount=no
quiet=no
tests=()

usage() {
  cat <<END
Usage: tests/vm/run.sh [--build DIR] [--no-build] [--accel auto|kvm|tcg] [--guests N] [--cpus N] [--icount]
                       [--quiet] [--timeout S] [--list] [TEST...]

Boots Linux 6.12 in QEMU with soft-RoCE that registers dma-bufs (a patch of tests/vm/rxe), and runs
in it, with this machine's files, programs that were built here: the provider on libfabric's verbs
provider, upstream's fabtests and Open MPI, with simulated Gaudis whose exports are real dma-bufs,
which no CPU can map (a module of tests/vm/fakegaudi). TEST is a name that --list shows; without one
all are run but those named _long.

  --build DIR   build folder (default: build); what is downloaded and made is kept in DIR/vm
  --no-build    the build folder is complete: compile nothing of the project's
  --accel HOW   auto (default): KVM if a first boot with it succeeds, else emulation (tcg)
  --guests N    virtual machines that share the tests (default: as many as this machine has CPUs, at most 2)
  --cpus N      CPUs of each (default 1). With 2 both ends of a measurement run at once (speed_long), but an
                emulated kernel with several may panic while it patches its code
  --icount      a guest's clock counts the instructions of its one CPU: ratios of speed_long are then those of
                instructions, and the same whatever else this machine does. Implies --accel tcg
  --quiet       show of a test's output only what tells of its failure; the whole is in DIR/vm/shared/logs
  --timeout S   seconds that a virtual machine may take (default $limit)
  --list        name the tests and end

Packages that are missing are installed (needs root or sudo then); kernel and sources are only
downloaded, with apt-get, from the archives that this machine is configured for.

Exit status: 0 all passed, 1 a test failed, 2 bad option, 77 skipped: no such machine can be had
here, the last line says why (1 instead with CI=true in the environment).
END
}

# Ends the run because this machine cannot do it.
skip() {
  echo "skipped: $*"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}

list_tests() {
  local file
  for file in "$here"/tests/*.sh; do basename "$file" .sh; done
}

while (($#)); do
  case $1 in
    --build) build=${2:?--build wants a folder}; shift ;;
    --no-build) compile=no ;;
    --accel) accel=${2:?--accel wants auto, kvm or tcg}; shift ;;
    --guests) guests=${2:?--guests wants a number}; shift ;;
    --cpus) cpus=${2:?--cpus wants a number}; shift ;;
    --icount) icount=yes ;;
    --quiet) quiet=yes ;;
    --timeout) limit=${2:?--timeout wants seconds}; shift ;;
    --list) list_tests; exit 0 ;;
    --help | -h) usage; exit 0 ;;
    -*) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
    *) tests+=("$1") ;;
  esac
  shift
done
((${#tests[@]})) || mapfile -t tests < <(list_tests | grep -v '_long$')
for name in "${tests[@]}"; do
  [[ -f $here/tests/$name.sh ]] || { echo "no test named $name; there are: $(list_tests | xargs)" >&2; exit 2; }
done
[[ $accel == auto || $accel == kvm || $accel == tcg ]] || { echo "--accel $accel: auto, kvm or tcg" >&2; exit 2; }

[[ -z $guests ]] && guests=$(($(nproc) < 2 ? 1 : 2))
[[ $guests =~ ^[1-9]$ ]] || { echo "--guests $guests: 1 to 9" >&2; exit 2; }
[[ $cpus =~ ^[1-9]$ ]] || { echo "--cpus $cpus: 1 to 9" >&2; exit 2; }
if [[ $icount == yes ]]; then
  [[ $cpus == 1 && $accel != kvm ]] || { echo "--icount: with one emulated CPU only" >&2; exit 2; }
  accel=tcg
fi
((guests <= ${#tests[@]})) || guests=${#tests[@]}

install_missing_packages "${vm_packages[@]}" || skip "packages of the virtual machine are missing (above)"
((EUID == 0)) || skip "the guest reads this machine's files through QEMU: run it as root"

if [[ $compile == yes ]]; then
  [[ -f $build/CMakeCache.txt ]] || cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo
  cmake --build "$build" --target gaudi-fi hlsim unit_hlsim gaudi_{info,perf,rdma_check} mpi_programs vm_{zero_copy,export,verbs} \
    integration_{messages,rma,connection,connected,device,wait,counter,multi_recv,threads,atomic,hcl_client,devices,gaudi3}
fi
build=$(cd "$build" && pwd)
"$root/util/get-libfabric-2.sh" --deps "$build/deps" || skip "libfabric 2.1 (above)"
"$root/fabtests/build.sh" --build "$build" --libfabric 2.x-verbs || skip "fabtests of libfabric 2.1 (above)"
cache=$build/vm
mkdir -p "$cache"
make_kernel "$cache" || skip "no kernel for the virtual machine (above)"
make_shim "$cache"
make_psm2_stand_in "$cache"
[[ $accel == auto ]] && accel=$(find_accel "$cache")

run_machines "$cache" "$accel" "$limit" "$guests" "${tests[@]}"
