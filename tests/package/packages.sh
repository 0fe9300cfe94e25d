#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the scripts say of packages on other distributions than Debian, and where libfabric is too old.
# Usage: packages.sh SOURCE-FOLDER
set -euo pipefail
# shellcheck source=util/packages.sh
source "$1/util/packages.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
export GAUDI_OS_RELEASE=$work/os-release
fail() { echo "$*" >&2; exit 1; }

on() { printf '%s\n' "$@" >"$GAUDI_OS_RELEASE"; }
expect() { # FAMILY TEXT
  local said
  [[ $(distribution) == "$1" ]] || fail "$(<"$GAUDI_OS_RELEASE") is taken for $(distribution), not $1"
  said=$(install_missing_packages no-such-package) || fail "$1: fails, and should only say what to install"
  [[ $said == *"$2"* ]] || fail "$1: it says: $said"
}
on 'ID="rhel"' 'ID_LIKE="fedora"'
expect rhel 'sudo dnf install cmake ninja-build gcc-c++'
on 'ID="rocky"' 'ID_LIKE="rhel centos fedora"'
expect rhel 'rdma-core-devel'
on 'ID="sles"' 'ID_LIKE="suse"'
expect suse 'sudo zypper install cmake ninja'
on 'ID=arch'
expect other 'GoogleTest'
on 'ID=ubuntu' 'ID_LIKE=debian' 'VERSION_ID="22.04"'
[[ $(distribution) == debian ]] || fail "Ubuntu is taken for $(distribution)"

# An old libfabric, as Ubuntu 22.04 has it.
mkdir "$work/pc"
printf 'Name: libfabric\nDescription: x\nVersion: 1.11.0\n' >"$work/pc/libfabric.pc"
said=$(PKG_CONFIG_PATH="" PKG_CONFIG_LIBDIR=$work/pc check_libfabric 2>&1) && fail "libfabric 1.11 is taken for new enough"
[[ $said == *"libfabric 1.11.0 is too old; 1.17"* ]] || fail "of libfabric 1.11 it says: $said"
sed -i 's/1.11.0/2.1.0/' "$work/pc/libfabric.pc"
PKG_CONFIG_PATH="" PKG_CONFIG_LIBDIR=$work/pc check_libfabric || fail "libfabric 2.1 is taken for too old"
echo "packages are named as they should be"
