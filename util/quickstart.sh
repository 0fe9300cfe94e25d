#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# From a fresh clone to two processes that exchange Gaudi memory, in one command.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
# shellcheck source=util/packages.sh
source "$root/util/packages.sh"

usage() {
  cat <<'END'
Usage: util/quickstart.sh [--help]

Installs the Debian packages that are missing (needs root or sudo only then), builds the provider
and its tools into build/, lists the provider with fi_info, and lets two processes, each on a Gaudi
of its own, exchange memory over it: every byte is verified, and one table shows operation, memory
pair, size, latency, MB/s and path.

Uses the machine's Gaudis where libhl-thunk is installed and two of them are free. Otherwise it uses
the stand-in build/util/hlsim/libhl-thunk.so, and every output says "simulated Gaudi2": such figures
are those of this machine's CPU and memory, not those of a Gaudi.

Environment:
  FI_GAUDI_HLTHUNK  the device library to use, instead of the choice above
  FI_GAUDI_CORE     auto, verbs or tcp: what carries the bytes (default auto)
  PKG_CONFIG_PATH   where a libfabric of your own is, if it is not the system's

Results: build/prov/libgaudi-fi.so, build/util/gaudi_info, build/util/gaudi_perf.
Exit status: 0 all went well and every byte was right, 1 something failed, 2 bad option.
END
}

step() { printf '\n== %s\n' "$*"; }

# Warnings are errors with the compiler that developers use; what another one warns of need stop nobody who tries this.
warnings() {
  case $("${CXX:-c++}" --version 2>/dev/null) in
    g++*" 12."* | c++*" 12."*) echo -DGAUDI_WERROR=ON ;;
    *) echo -DGAUDI_WERROR=OFF ;;
  esac
}

build_product() {
  cmake -S "$root" --preset release "$(warnings)" >"$build/configure.log" 2>&1 || {
    tail -n 25 "$build/configure.log" >&2
    echo "error: CMake could not configure the build; the whole output is in build/configure.log" >&2
    return 1
  }
  cmake --build "$build" --target prov/libgaudi-fi.so prov/ofi_gaudi/libofi_gaudi-fi.so \
    util/gaudi_info util/gaudi_perf util/hlsim/libhl-thunk.so
}

# Runs the libfabric that was built against, which may be the user's own, in PKG_CONFIG_PATH.
use_that_libfabric() {
  local prefix
  prefix=$(pkg-config --variable=prefix libfabric)
  [[ $prefix != /usr ]] || return 0
  echo "libfabric: $(pkg-config --modversion libfabric), in $prefix"
  export PATH=$prefix/bin:$PATH
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir libfabric)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
}

# How many Gaudis the driver shows; what answers is the provider's business, this is only the wish.
count_gaudis() {
  local nodes=(/dev/accel/accel[0-9]* /dev/hl[0-9]*) node count=0
  for node in "${nodes[@]}"; do
    [[ -e $node ]] && count=$((count + 1))
  done
  echo "$count"
}

# The provider offers FI_HMEM exactly when its device library loads and counts a device.
provider_sees_gaudi() {
  fi_info -p gaudi -c 'FI_HMEM' >/dev/null 2>&1
}

choose_device_library() {
  if [[ -n ${FI_GAUDI_HLTHUNK:-} ]]; then
    echo "device library: $FI_GAUDI_HLTHUNK (from FI_GAUDI_HLTHUNK)"
    return
  fi
  if (($(count_gaudis) >= 2)) && provider_sees_gaudi; then
    echo "device library: libhl-thunk of this machine"
    return
  fi
  export FI_GAUDI_HLTHUNK=$build/util/hlsim/libhl-thunk.so
  export HLSIM_DEVICES=${HLSIM_DEVICES:-2}
  echo "device: simulated Gaudi${HLSIM_GENERATION:-2} (build/util/hlsim/libhl-thunk.so; two real Gaudis with libhl-thunk were not found)"
}

while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    *) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
  esac
done

mkdir -p "$build"
step "1/4 packages"
install_missing_packages "${build_packages[@]}"

step "2/4 build"
build_product

step "3/4 the provider, as fi_info lists it"
export FI_PROVIDER_PATH=$build/prov
use_that_libfabric
choose_device_library
fi_info -p gaudi || {
  echo "error: libfabric does not list the provider; FI_LOG_LEVEL=warn shows why" >&2
  exit 1
}

step "4/4 two processes exchange Gaudi memory"
FI_PROVIDER=gaudi "$build/util/gaudi_perf" --tour
