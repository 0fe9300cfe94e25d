# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The Debian packages that building and testing need: one list, sourced by quickstart.sh and run-tests.sh.
# shellcheck shell=bash disable=SC2034

# What building and the quickstart need.
build_packages=(
  cmake ninja-build g++ pkg-config
  libfabric-dev libfabric-bin libibverbs-dev librdmacm-dev
  libboost-dev libhwloc-dev libcli11-dev libfmt-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)

# What run-tests.sh needs on top: the linters, Open MPI, callgrind, strace, a compiler cache, and the build of a libfabric 2.x
# (whose tarball has no configure script, hence the autotools).
test_packages=(
  clang-14 clang-format-14 clang-tidy-14 clang-tools-14 python3 python3-yaml man-db
  shellcheck openmpi-bin libopenmpi-dev valgrind strace ccache
  autoconf automake libtool make xz-utils ca-certificates curl
)

# Prints the packages of its arguments that are not installed, one per line.
missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
      printf '%s\n' "$package"
  done
}

# Installs those of its arguments that are missing; touches neither apt nor the network when none is.
# Returns 1, having said what to do, where that is not possible.
install_missing_packages() {
  local -a missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    echo "packages: all $# are installed"
    return 0
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "error: missing packages: ${missing[*]}" >&2
      echo "  You are not root and there is no sudo. As root, run:" >&2
      echo "    apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "packages: installing ${#missing[@]} of $#: ${missing[*]}"
  "${as_root[@]}" apt-get -q update || echo "warning: apt-get update failed; trying the lists there are" >&2
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "${missing[@]}"; then
    echo "error: apt-get could not install: ${missing[*]}" >&2
    echo "  Check the apt sources and the network, then run this script again." >&2
    return 1
  fi
}
