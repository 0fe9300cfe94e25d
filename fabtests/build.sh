#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds the fabtests of libfabric 2.1's source tarball against a libfabric, once, and prints where:
# bin/, runfabtests.sh (for its lists) and libfabric -> the library's folder.
#   build.sh [--build DIR] [--libfabric 1.17|2.x|2.x-verbs|2.x-synapse|2.x-verbs-synapse]
# 1.17 is the system's; the tests of 2.x, whatever it is run for, know Synapse's device memory (-D synapseai). 77: there is no
# libfabric 2.1, whose tarball is wanted for all (util/get-libfabric-2.sh says why), or the system's is another.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
build=$root/build
release=2.x
while (($#)); do
  case $1 in
    --build) build=$(realpath "$2") ;;
    --libfabric) release=$2 ;;
    *) echo "build.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
deps=$build/deps

# An installed one may be named, with its source beside it.
if [[ -z ${GAUDI_LIBFABRIC2:-} ]]; then
  "$root/util/get-libfabric-2.sh" --deps "$deps" >&2 || exit 77
  GAUDI_LIBFABRIC2=$deps/libfabric-2.1
fi
source=$(cd "$GAUDI_LIBFABRIC2/.." && pwd)/libfabric-2.1.0/fabtests
[[ -d $source ]] || { echo "no fabtests beside $GAUDI_LIBFABRIC2: skipped" >&2; exit 77; }

flags="-O1 -g1"
options=()
compiler=gcc
command -v ccache >/dev/null && compiler="ccache gcc"
case $release in
  2.x | 2.x-verbs | 2.x-synapse | 2.x-verbs-synapse)
    prefix=$deps/fabtests-2.1
    library=$(cd "$GAUDI_LIBFABRIC2" && pwd)
    folder=$library/lib
    # The headers in synapse/ are ours: the libraries are found at run time.
    options=(--with-synapseai="$here/synapse")
    ;;
  1.17)
    pkg-config --exists 'libfabric >= 1.17' 'libfabric < 1.18' ||
      { echo "this system's libfabric is not 1.17: skipped" >&2; exit 77; }
    prefix=$deps/fabtests-1.17
    library=$(pkg-config --variable=prefix libfabric)
    folder=$(pkg-config --variable=libdir libfabric)
    # Tests of single providers, for what these alone have in newer headers.
    options=(--disable-efa --disable-lpp)
    flags+=" -include $here/libfabric-1.17.h"
    ;;
  *) echo "build.sh: --libfabric is 1.17, 2.x, 2.x-verbs, 2.x-synapse or 2.x-verbs-synapse, not $release" >&2; exit 2 ;;
esac

if [[ ! -e $prefix/.built || $(<"$prefix/.built") != "$library" ]]; then
  echo "fabtests for libfabric $release: building (half a minute, log in $prefix.log)" >&2
  rm -rf "$prefix" "$prefix-source"
  mkdir -p "$deps"
  cp -r "$source" "$prefix-source"
  (
    cd "$prefix-source"
    { [[ -x configure ]] || ./autogen.sh; } &&
      ./configure --prefix="$prefix" --with-libfabric="$library" "${options[@]}" CC="$compiler" &&
      make -j"$(nproc)" CFLAGS="$flags" install
  ) >"$prefix.log" 2>&1 || {
    tail -n 15 "$prefix.log" >&2
    echo "fabtests cannot be built, see $prefix.log" >&2
    exit 1
  }
  cp "$source/scripts/runfabtests.sh" "$prefix/"
  rm -rf "$prefix-source"
  ln -sfn "$folder" "$prefix/libfabric"
  echo "$library" >"$prefix/.built"
fi
echo "$prefix"
