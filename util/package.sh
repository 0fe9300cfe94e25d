#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds the Debian packages of this tree.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=util/packages.sh
source "$root/util/packages.sh"
# shellcheck source=util/package/source.sh
source "$root/util/package/source.sh"
out=$root/build/package
revision=1
lint=yes

usage() {
  cat <<'END'
Usage: util/package.sh [--out FOLDER] [--revision N] [--no-lint] [--help]

Builds the Debian packages libfabric-provider-gaudi, libfabric-provider-gaudi-dev,
gaudi-fi-tools and gaudi-fi-hlsim, with their -dbgsym, from the files of this tree
that git knows, as they are now, and has lintian look at them. Installs what that
needs (root or sudo only then).
  --out FOLDER   where they go (default build/package)
  --revision N   the packages' revision, behind the release (default 1)
  --no-lint      without lintian

Install them with: apt install FOLDER/*.deb
Exit status: 0 built, 1 something failed, 2 bad option.
END
}

bad_option() {
  echo "package.sh: $1 (see util/package.sh --help)" >&2
  exit 2
}

# The original tarball, and beside it the tree with its folder debian/.
assemble() { # VERSION
  local tree=$out/gaudi-fi-$1
  copy_files "$tree"
  make_tarball "$tree" "$out/gaudi-fi_$1.orig.tar.xz" "$date"
  cp -r "$tree/util/package/debian" "$tree/debian"
  sed -e "s/@VERSION@/$1/; s/@REVISION@/$revision/; s/@DATE@/$date/" "$tree/debian/changelog.in" >"$tree/debian/changelog"
  rm "$tree/debian/changelog.in"
}

build() { # VERSION
  # dh gives the build a home of its own, which would be a cache of its own.
  export CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")}
  (cd "$out/gaudi-fi-$1" && dpkg-buildpackage -us -uc --build=full) >"$out/build.log" 2>&1 || {
    tail -n 25 "$out/build.log" >&2
    echo "error: dpkg-buildpackage failed; its whole output is in $out/build.log" >&2
    return 1
  }
}

while (($#)); do
  case $1 in
    --out) (($# > 1)) || bad_option "--out wants a folder"; out=$2; shift ;;
    --revision) [[ ${2:-} =~ ^[0-9]+$ ]] || bad_option "--revision wants a number"; revision=$2; shift ;;
    --no-lint) lint=no ;;
    --help | -h) usage; exit 0 ;;
    *) bad_option "unknown option: $1" ;;
  esac
  shift
done

install_missing_packages "${build_packages[@]}" "${package_packages[@]}"
version=$(release)
[[ -n $version ]] || { echo "error: CMakeLists.txt names no release" >&2; exit 1; }
date=$(commit_date %cD -R)
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/*.deb "$out"/*.changes "$out"/*.dsc "$out"/*.buildinfo "$out"/*.tar.xz
assemble "$version"
echo "packages: building $version-$revision (log in $out/build.log)"
build "$version"
rm -rf "$out/gaudi-fi-$version"
if [[ $lint == yes ]]; then
  # Not for Debian's own archive, so no report asks for them to be there.
  lintian --allow-root --suppress-tags initial-upload-closes-no-bugs \
    --fail-on error,warning --tag-display-limit 0 "$out"/*.changes
fi
find "$out" -maxdepth 1 -name '*.deb' -printf '%f\n' | sort
