# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The packages that building and testing need: one list, sourced by quickstart.sh, run-tests.sh and package.sh. The names are
# Debian's and Ubuntu's; elsewhere the lists below are said, and nothing is installed.
# shellcheck shell=bash disable=SC2034

# What building and the quickstart need.
build_packages=(
  cmake ninja-build g++ pkg-config python3
  libfabric-dev libfabric-bin libibverbs-dev librdmacm-dev
  libboost-dev libcli11-dev libfmt-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)

# What run-tests.sh needs on top: the linters, libclang for mutation testing, a model checker, Open MPI, callgrind, strace, a
# compiler cache, gnuplot, the header of static probes, gdb, and the build of a libfabric 2.x (whose tarball has no configure script, hence the autotools).
test_packages=(
  clang-14 clang-format-14 clang-tidy-14 clang-tools-14 python3-clang-14 python3-yaml man-db
  shellcheck spin openmpi-bin libopenmpi-dev valgrind strace ccache tshark python3-prometheus-client gnuplot-nox
  systemtap-sdt-dev gdb
  autoconf automake libtool make xz-utils ca-certificates curl
)

# What run-tests.sh --long needs on top of both: what sums coverage up, systems of other releases to build and install on, what
# compression is measured with, what MPICH and Open MPI 5 are built with, and a program that runs under MPI.
long_packages=(gcovr mmdebstrap libzstd-dev liblz4-dev libhwloc-dev hpcc)

# What package.sh needs on top of the first list.
package_packages=(debhelper dpkg-dev fakeroot lintian xz-utils)

# What the first list is called elsewhere.
rhel_packages=(cmake ninja-build gcc-c++ pkgconf-pkg-config python3 libfabric-devel libfabric rdma-core-devel boost-devel
cli11-devel fmt-devel json-devel gtest-devel gmock-devel)
suse_packages=(cmake ninja gcc-c++ pkgconf python3 libfabric-devel rdma-core-devel libboost_headers-devel cli11-devel fmt-devel
nlohmann_json-devel gtest gmock)

# The family of this distribution: debian, rhel, suse or other. GAUDI_OS_RELEASE names another file in tests.
distribution() {
  local ids
  ids=$(sed -n 's/^ID\(_LIKE\)\{0,1\}=//p' "${GAUDI_OS_RELEASE:-/etc/os-release}" 2>/dev/null | tr -d \" | tr '\n' ' ')
  case " $ids " in
    *" debian "* | *" ubuntu "*) echo debian ;;
    *" rhel "* | *" fedora "* | *" centos "*) echo rhel ;;
    *suse*) echo suse ;;
    *) echo other ;;
  esac
}

# Says what to install where that is not for this script to do.
name_packages() { # FAMILY
  echo "packages: this is no Debian or Ubuntu, so nothing is installed or checked. Building needs:"
  case $1 in
    rhel)
      echo "  sudo dnf install ${rhel_packages[*]}"
      echo "  (cli11, fmt, json and gtest are in EPEL: sudo dnf install epel-release; sudo crb enable)"
      ;;
    suse) echo "  sudo zypper install ${suse_packages[*]}" ;;
    *)
      echo "  CMake 3.22, Ninja, pkg-config, Python 3, a C++20 compiler (GCC 11 or clang 14), libfabric 1.17, rdma-core,"
      echo "  and the development files of Boost 1.74, CLI11, fmt, nlohmann-json, GoogleTest and GoogleMock"
      ;;
  esac
}

# Ubuntu 22.04 has libfabric 1.11: what apt installs is not enough there.
check_libfabric() {
  command -v pkg-config >/dev/null || return 0
  pkg-config --atleast-version=1.17 libfabric && return 0
  echo "error: libfabric $(pkg-config --modversion libfabric 2>/dev/null || echo "(none)") is too old; 1.17 or newer is needed" >&2
  echo "  Ubuntu 24.04 and Debian 12 have it. Elsewhere build one, in the folder of its source, and name it:" >&2
  echo "    ./configure --prefix=\$HOME/libfabric && make install" >&2
  echo "    export PKG_CONFIG_PATH=\$HOME/libfabric/lib/pkgconfig" >&2
  echo "  then run this script again." >&2
  return 1
}

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
  local family
  family=$(distribution)
  if [[ $family != debian ]] || ! command -v apt-get >/dev/null; then
    name_packages "$family"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    echo "packages: all $# are installed"
    check_libfabric
    return
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
  check_libfabric
}
