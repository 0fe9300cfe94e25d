#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Installs the build into a folder of its own: exactly the files of the manifest are there, and a stranger's client is
# built on them, by pkg-config and by CMake, and runs.
# Usage: install.sh BUILD-FOLDER LIBDIR VERSION
set -euo pipefail
build=$1 libdir=$2 version=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v pkg-config cc cmake >/dev/null || { echo "no C compiler, pkg-config or cmake here" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

install_into() { # FOLDER CMAKE-OPTION...
  local folder=$1
  shift
  DESTDIR=$folder cmake --install "$build" --prefix /usr "$@" >"$work/install.log" || {
    cat "$work/install.log" >&2
    fail "cmake --install failed: is everything built?"
  }
}

# What is there, against the manifest; diff's output is the error.
compare() { # FOLDER MANIFEST
  diff <(sed "s,^LIB/,$libdir/," "$2" | LC_ALL=C sort) <(cd "$1/usr" && find . ! -type d -printf '%P\n' | LC_ALL=C sort) ||
    fail "installed (>) is not what $2 lists (<)"
}

install_into "$work/root"
compare "$work/root" "$here/manifest"
install_into "$work/hlsim" --component hlsim
compare "$work/hlsim" "$here/manifest.hlsim"

root=$work/root/usr
for tool in gaudi_info gaudi_perf gaudi_rdma_check gaudi_stress gaudi_top; do
  said=$("$root/bin/$tool" --version)
  [[ $said == "$tool $version" ]] || fail "$tool --version says: $said"
done
for page in "$root"/share/man/man?/*; do
  [[ -s $page ]] || fail "$page is empty"
done

# The installed provider, on the installed stand-in.
export HLSIM_DIR=$work/devices HLSIM_DEVICES=1 FI_GAUDI_CORE=tcp
export FI_GAUDI_HLTHUNK=$work/hlsim/usr/$libdir/hlsim/libhl-thunk.so
export PKG_CONFIG_PATH=$root/$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
unset FI_PROVIDER

[[ $(pkg-config --modversion gaudi-fi) == "$version" ]] || fail "gaudi-fi.pc has another version"
provider_dir=$(pkg-config --variable=providerdir gaudi-fi)
[[ -e $provider_dir/libgaudi-fi.so ]] || fail "gaudi-fi.pc says that the provider is in $provider_dir"
export FI_PROVIDER_PATH=$provider_dir
# Strict about our header alone: libfabric's own, where they are not the system's, are not C99 to the letter.
# shellcheck disable=SC2046  # words, not one
cc -std=gnu99 -Wall -Wextra -Werror -pedantic "$here/client/client.c" -o "$work/by-pkg-config" \
  $(pkg-config --cflags-only-I libfabric | sed 's/-I */-isystem /g') $(pkg-config --cflags --libs gaudi-fi)
said=$("$work/by-pkg-config") || fail "the client built by pkg-config fails: $said"
[[ $said == "simulated Gaudi"* ]] || fail "the client built by pkg-config says: $said"
[[ $(ldd "$work/by-pkg-config") != *gaudi* ]] || fail "a client is linked with the provider"

by_cmake() { # VERSION
  cmake -G Ninja -S "$here/client" -B "$work/by-cmake" -DCMAKE_PREFIX_PATH="$root" -DWANTED_VERSION="$1" >"$work/cmake.log" 2>&1
}
if ! by_cmake "$version" || ! cmake --build "$work/by-cmake" >>"$work/cmake.log" 2>&1; then
  cat "$work/cmake.log" >&2
  fail "the client does not build by find_package(gaudi-fi $version)"
fi
FI_PROVIDER_PATH=$(<"$work/by-cmake/provider-dir")
said=$("$work/by-cmake/client") || fail "the client built by find_package fails: $said"
[[ $said == "simulated Gaudi"* ]] || fail "the client built by find_package says: $said"
! by_cmake 99.0 || fail "find_package takes version $version for 99.0"
