#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The Debian packages on a system that has nothing else: a chroot of the release that they are for, in which they are installed,
# list the provider, let two processes exchange device memory, are upgraded, and leave nothing when they are purged.
# Usage: chroot.sh SOURCE-FOLDER [SUITE [FOLDER]]      FOLDER: packages that util/package.sh has built there already
# Exits with 77 (skipped) where there is no mmdebstrap, no root, or no archive to be reached.
set -euo pipefail
source_dir=$1 suite=${2:-bookworm} built=${3:-}
# shellcheck source=tests/package/system.sh
source "$source_dir/tests/package/system.sh"
packages=(libfabric-provider-gaudi libfabric-provider-gaudi-dev gaudi-fi-tools gaudi-fi-hlsim)

# The same packages as another revision, without a second build.
repack() { # FROM TO
  local one
  mkdir -p "$2"
  for one in "$1"/*.deb; do
    rm -rf "$work/unpacked"
    dpkg-deb -R "$one" "$work/unpacked"
    sed -i -E '/^(Version|Depends):/s/([0-9.]+-)1\b/\12/' "$work/unpacked/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/unpacked" "$2/$(basename "${one/-1_/-2_}")" >/dev/null
  done
}

install_revision() { # FOLDER
  mkdir -p "$system/new"
  cp "$1"/*.deb "$system/new"
  run "$system" sh -c 'apt-get install -y --no-install-recommends libfabric-bin /new/*.deb'
  rm -r "$system/new"
}

# With no variable but those that name the stand-in and how many devices it has.
exchange() {
  local library said
  library=$(cd "$system" && echo usr/lib/*/hlsim/libhl-thunk.so)
  said=$(inside "$system" FI_GAUDI_HLTHUNK="/$library" HLSIM_DEVICES=2 fi_info -p gaudi 2>&1) || fail "fi_info in $suite: $said"
  [[ $said == *"provider: gaudi"* ]] || fail "fi_info in $suite does not list the provider: $said"
  said=$(inside "$system" FI_GAUDI_HLTHUNK="/$library" HLSIM_DEVICES=2 gaudi_perf --tour 2>&1) || fail "exchange in $suite: $said"
  [[ $said == *"simulated Gaudi2"* ]] || fail "the exchange in $suite was between no simulated Gaudis: $said"
}

# On a system of the suite, from the source package: what it depends on there is called otherwise than here.
build_there() { # FOLDER
  local there=$work/builder
  make_system "$suite" "$there"
  mkdir "$there/build"
  cp "$1"/*.dsc "$1"/*.tar.xz "$there/build"
  install_packages "$there" dpkg-dev
  run "$there" sh -c 'apt-get build-dep -y --no-install-recommends /build/*.dsc'
  run "$there" sh -c 'cd /build && dpkg-source -x ./*.dsc tree && cd tree && dpkg-buildpackage -b -us -uc'
  mkdir "$work/there"
  cp "$there"/build/*.deb "$work/there"
  remove_system "$there"
}

if [[ -z $built ]]; then
  echo "building the packages"
  built=$work/built
  "$source_dir/util/package.sh" --out "$built" --no-lint >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "package.sh failed"; }
  if [[ $suite != "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" ]]; then
    echo "building them once more, on a system of $suite"
    build_there "$built"
    built=$work/there
  fi
fi
mkdir "$work/first"
for name in "${packages[@]}"; do cp "$built"/"$name"_*.deb "$work/first"; done
repack "$work/first" "$work/second"
echo "making a system of $suite"
make_system "$suite" "$system"
echo "installing, exchanging, upgrading, exchanging"
install_revision "$work/first"
exchange
install_revision "$work/second"
for name in "${packages[@]}"; do
  [[ $(inside "$system" dpkg -s "$name") == *"-2"$'\n'* ]] || fail "$name was not upgraded"
done
exchange
inside "$system" dpkg -L "${packages[@]}" | sort -u >"$work/owned"
run "$system" apt-get purge -y "${packages[@]}"
left=$(while read -r path; do
  [[ -d $system$path || ! -e $system$path ]] || echo "$path"
done <"$work/owned"
find "$system" -xdev \( -iname '*gaudi*' -o -iname '*hlsim*' \) -not -path "$system/var/log/*")
[[ -z $left ]] || fail "left behind in $suite: $left"
echo "packages in $suite: installed, exchanged device memory, upgraded, purged, nothing left"
