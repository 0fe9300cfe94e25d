#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds MPICH for libfabric (ch4:ofi), and the programs of its own test suite, from the source of Debian's package, once, and
# prints where: bin/ and tests/, which is its test/mpi.
#   build.sh [--build DIR]
# Debian's own MPICH is built for UCX, and has no libfabric in it. 77: it cannot be had.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/tools/debian_source.sh
source "$here/../../tools/debian_source.sh"
build=$(cd "$here/../../.." && pwd)/build
version=4.0.2
# Of the .orig tarball as Debian 12 publishes it.
sha256=b27039f964afeb6b8a3e009c56b441cbe368c26d6d6476ad3bb7190996875860
# threads: its parts that programs of the other directories have no counterpart to are in folders of their own.
directories=(pt2pt coll rma comm datatype threads/{pt2pt,comm,init,mpi_t,spawn,rma,part,coll})
while (($#)); do
  case $1 in
    --build) build=$(realpath "$2") ;;
    *) echo "build.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
deps=$build/deps
prefix=$deps/mpich-$version-ofi
source=$deps/mpich-$version
log=$deps/mpich-build.log
tarball=mpich_$version.orig.tar.xz

skip() {
  echo "skipped: MPICH $version: $*" >&2
  exit 77
}

# MPICH links what libfabric itself is linked with (PAC_LIB_DEPS in its confdb/aclocal_libs.m4 asks pkg-config --static), of
# which Debian's libfabric-dev does not bring all.
hide_private_libraries() { # FOLDER
  mkdir -p "$1"
  sed '/^\(Libs\|Requires\)\.private/d' "$(pkg-config --variable=pcfiledir libfabric)/libfabric.pc" >"$1/libfabric.pc"
}

# Chained by hand because `set -e` is off inside a condition, which is where this is called.
build_library() {
  local compiler=gcc
  command -v ccache >/dev/null && compiler="ccache gcc"
  cd "$source" &&
    PKG_CONFIG_PATH=$deps/mpich-pkgconfig ./configure --prefix="$prefix" --with-device=ch4:ofi \
      --with-libfabric="$(pkg-config --variable=prefix libfabric)" --with-hwloc=/usr --with-pm=hydra \
      --with-datatype-engine=dataloop --enable-threads=multiple --enable-fast=O1 --enable-error-checking=all \
      --disable-fortran --disable-cxx --disable-romio --disable-static CC="$compiler" &&
    make -j"$(nproc)" install
}

build_tests() {
  local directory
  cd "$source/test/mpi" || return
  for directory in dtpools util "${directories[@]}"; do
    make -j"$(nproc)" -C "$directory" || return
  done
}

# The prefix is in the stamp because a moved tree has the old path in its programs.
wanted="$sha256 $prefix"
if [[ ! -f $prefix/.built-from || $(<"$prefix/.built-from") != "$wanted" ]]; then
  mkdir -p "$deps"
  pkg-config --exists libfabric hwloc || skip "libfabric-dev and libhwloc-dev are not installed"
  fetch_source mpich "$tarball" "$sha256" "$deps" || skip "no archive of apt's sources has $tarball (network?)"
  echo "MPICH $version: building (a quarter of an hour, log in $log)" >&2
  rm -rf "$source" "$prefix"
  mkdir "$source"
  tar -xf "$deps/$tarball" -C "$source" --strip-components=1
  hide_private_libraries "$deps/mpich-pkgconfig"
  if ! (build_library && build_tests) >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "MPICH $version cannot be built, see $log" >&2
    exit 1
  fi
  ln -sfn "$source/test/mpi" "$prefix/tests"
  echo "$wanted" >"$prefix/.built-from"
fi
echo "$prefix"
