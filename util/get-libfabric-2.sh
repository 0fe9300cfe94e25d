#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds a shared libfabric 2.1 with its tools, for the tests that show the provider on libfabric 2.x.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=2.1.0
# Of the .orig tarball as Debian 13 publishes it: what is fetched is run, so it is checked first.
sha256=1a66369772d5bb151737214af1c478993e969cf298e8f9ed369e7a2ab8d8c6df
deps=$root/build/deps

usage() {
  cat <<END
Usage: util/get-libfabric-2.sh [--deps DIR] [--help]

Downloads libfabric $version's source tarball from the Debian archive that this machine's apt
sources name, and installs it into DIR/libfabric-2.1 (default build/deps) with the tcp, verbs, shm
and rxm providers and fi_info, fi_pingpong. Takes about a minute; does nothing when it is there already.
The source, with its fabtests folder, stays in DIR/libfabric-$version.

Exit status: 0 built or already there, 1 it cannot be had (the last line says why).
END
}

fail() {
  echo "libfabric $version cannot be had: $*" >&2
  exit 1
}

# Every archive base that apt is configured with; asks apt, so that all its source formats count.
# shellcheck disable=SC2016  # apt expands it, not the shell
archive_uris() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u
}

download() { # URL FILE
  if [[ -x /usr/lib/apt/apt-helper ]]; then # knows apt's proxy settings
    /usr/lib/apt/apt-helper -o Acquire::Retries=2 download-file "$1" "$2" >/dev/null 2>&1 && [[ -s $2 ]] && return
  fi
  if command -v curl >/dev/null; then
    curl -fsSL --retry 2 --max-time 120 -o "$2" "$1" 2>/dev/null && [[ -s $2 ]] && return
  fi
  rm -f "$2"
  return 1
}

fetch_tarball() { # FILE
  local uri
  for uri in $(archive_uris); do
    download "${uri%/}/pool/main/libf/libfabric/libfabric_$version.orig.tar.xz" "$1.part" || continue
    if echo "$sha256  $1.part" | sha256sum --check --status; then
      mv "$1.part" "$1"
      return 0
    fi
    rm -f "$1.part"
    echo "the tarball found in one of apt's archives is not the expected one; trying the next" >&2
  done
  return 1
}

# Chained by hand because `set -e` is off inside a condition, which is where this is called.
build() { # SOURCE PREFIX
  cd "$1" &&
    { [[ -x configure ]] || ./autogen.sh; } &&
    configure_it "$2" &&
    make -j"$(nproc)" &&
    make install
}

# Only what the tests use: each provider left out is a dependency less.
configure_it() { # PREFIX
  local used=(tcp verbs rxm shm sm2 perf trace profile hook_debug)
  local unused=(efa psm2 psm3 opx usnic udp rxd mrail lpp lnx ucx sockets hook_hmem dmabuf_peer_mem)
  local compiler=gcc
  command -v ccache >/dev/null && compiler="ccache gcc"
  ./configure --prefix="$1" --disable-static "${used[@]/#/--enable-}" "${unused[@]/#/--disable-}" CC="$compiler" CFLAGS="-O2 -g1"
}

while (($#)); do
  case $1 in
    --deps) deps=${2:?--deps wants a folder}; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

mkdir -p "$deps"
deps=$(cd "$deps" && pwd)
prefix=$deps/libfabric-2.1
stamp=$prefix/.built-from
# The prefix is in the stamp because a moved tree has the old path in its libraries.
wanted="$sha256 verbs $prefix"
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  echo "libfabric $version: already in $prefix"
  exit 0
fi

tarball=$deps/libfabric_$version.orig.tar.xz
if ! [[ -f $tarball ]] || ! echo "$sha256  $tarball" | sha256sum --check --status; then
  echo "libfabric $version: download"
  fetch_tarball "$tarball" || fail "no archive of apt's sources has libfabric_$version.orig.tar.xz (network?)"
fi

source=$deps/libfabric-$version
log=$deps/libfabric-build.log
rm -rf "$source" "$prefix"
mkdir "$source"
tar -xf "$tarball" -C "$source" --strip-components=1 || fail "its tarball does not unpack"
echo "libfabric $version: building (about a minute, log in $log)"
if ! (build "$source" "$prefix") >"$log" 2>&1; then
  tail -n 15 "$log" >&2
  fail "its build failed, see $log"
fi
echo "$wanted" >"$stamp"
echo "libfabric $version: installed in $prefix"
