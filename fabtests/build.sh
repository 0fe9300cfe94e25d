#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds fabtests from libfabric 2.1's source tarball against that libfabric, once, and prints where:
# bin/, runfabtests.sh (for its lists) and libfabric -> the library's folder.
#   build.sh [--build DIR]
# 77: there is no libfabric 2.1 (util/get-libfabric-2.sh says why).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
[[ ${1:-} == --build ]] && build=$2
deps=$build/deps

# An installed one may be named, with its source beside it.
if [[ -z ${GAUDI_LIBFABRIC2:-} ]]; then
  "$root/util/get-libfabric-2.sh" --deps "$deps" >&2 || exit 77
  GAUDI_LIBFABRIC2=$deps/libfabric-2.1
fi
library=$(cd "$GAUDI_LIBFABRIC2" && pwd)
source=$(dirname "$library")/libfabric-2.1.0/fabtests
[[ -d $source ]] || { echo "no fabtests beside $library: skipped" >&2; exit 77; }

prefix=$deps/fabtests-2.1
if [[ ! -e $prefix/.built || $(<"$prefix/.built") != "$library" ]]; then
  echo "fabtests: building (half a minute, log in $deps/fabtests-build.log)" >&2
  rm -rf "$prefix" "$deps/fabtests-source"
  mkdir -p "$deps"
  cp -r "$source" "$deps/fabtests-source"
  (
    cd "$deps/fabtests-source"
    { [[ -x configure ]] || ./autogen.sh; } &&
      ./configure --prefix="$prefix" --with-libfabric="$library" CFLAGS="-O2 -g1" &&
      make -j"$(nproc)" install
  ) >"$deps/fabtests-build.log" 2>&1 || {
    tail -n 15 "$deps/fabtests-build.log" >&2
    echo "fabtests cannot be built, see $deps/fabtests-build.log" >&2
    exit 1
  }
  cp "$source/scripts/runfabtests.sh" "$prefix/"
  ln -sfn "$library/lib" "$prefix/libfabric"
  echo "$library" >"$prefix/.built"
fi
echo "$prefix"
