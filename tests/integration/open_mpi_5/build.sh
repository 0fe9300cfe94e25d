#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds Open MPI 5 from the source of Debian 13's package, once, and prints where.
#   build.sh [--build DIR]
# Debian 12 has 4.1. 77: it cannot be had.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/tools/debian_source.sh
source "$here/../../tools/debian_source.sh"
build=$(cd "$here/../../.." && pwd)/build
version=5.0.7
# Of the .orig tarball as Debian 13 publishes it.
sha256=97f10c04e9b9a1771db3fd005009e4c07afa3ce739f940e41eb0fc7397cb9473
while (($#)); do
  case $1 in
    --build) build=$(realpath "$2") ;;
    *) echo "build.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
deps=$build/deps
prefix=$deps/openmpi-$version
source=$deps/openmpi-$version-source
log=$deps/openmpi-build.log
tarball=openmpi_$version.orig.tar.xz

skip() {
  echo "skipped: Open MPI $version: $*" >&2
  exit 77
}

# Chained by hand because `set -e` is off inside a condition, which is where this is called. Debian 12's libraries for its
# launcher are too old, so it takes those that it brings.
build_library() {
  local compiler=gcc
  command -v ccache >/dev/null && compiler="ccache gcc"
  cd "$source" &&
    ./configure --prefix="$prefix" --with-ofi --with-hwloc=external --with-libevent=internal --with-pmix=internal \
      --with-prrte=internal --without-ucx --without-psm2 --disable-mpi-fortran --disable-oshmem --disable-io-romio \
      --disable-static --disable-sphinx CC="$compiler" &&
    make -j"$(nproc)" install
}

# The prefix is in the stamp because a moved tree has the old path in its programs.
wanted="$sha256 $prefix"
if [[ ! -f $prefix/.built-from || $(<"$prefix/.built-from") != "$wanted" ]]; then
  mkdir -p "$deps"
  pkg-config --exists libfabric hwloc || skip "libfabric-dev and libhwloc-dev are not installed"
  fetch_source openmpi "$tarball" "$sha256" "$deps" || skip "no archive of apt's sources has $tarball (network?)"
  echo "Open MPI $version: building (a quarter of an hour, log in $log)" >&2
  rm -rf "$source" "$prefix"
  mkdir "$source"
  tar -xf "$deps/$tarball" -C "$source" --strip-components=1
  if ! build_library >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "Open MPI $version cannot be built, see $log" >&2
    exit 1
  fi
  rm -rf "$source"
  echo "$wanted" >"$prefix/.built-from"
fi
echo "$prefix"
