#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds the rpm packages of this tree.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=util/package/source.sh
source "$root/util/package/source.sh"
out=$root/build/rpm
revision=1

usage() {
  cat <<'END'
Usage: util/package/rpm.sh [--out FOLDER] [--revision N] [--help]

Builds the packages libfabric-provider-gaudi, libfabric-provider-gaudi-devel,
gaudi-fi-tools and gaudi-fi-hlsim, and the source package, with rpmbuild, from the
files of this tree that git knows, as they are now; two processes exchange memory
on simulated Gaudis in its %check; rpmlint looks at the result where it is there.
  --out FOLDER   where they go (default build/rpm)
  --revision N   the packages' revision, behind the release (default 1)

The build needs what util/package/rpm/gaudi-fi.spec.in lists. Where rpm does not
manage this system (Debian) it is not asked what is installed.
Exit status: 0 built, 1 something failed, 2 bad option.
END
}

bad_option() {
  echo "rpm.sh: $1 (see util/package/rpm.sh --help)" >&2
  exit 2
}

while (($#)); do
  case $1 in
    --out) (($# > 1)) || bad_option "--out wants a folder"; out=$2; shift ;;
    --revision) [[ ${2:-} =~ ^[0-9]+$ ]] || bad_option "--revision wants a number"; revision=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) bad_option "unknown option: $1" ;;
  esac
  shift
done

command -v rpmbuild >/dev/null || { echo "error: there is no rpmbuild here (package rpm-build, on Debian rpm)" >&2; exit 1; }
version=$(release)
[[ -n $version ]] || { echo "error: CMakeLists.txt names no release" >&2; exit 1; }
date=$(LC_ALL=C date -u -d "$(commit_date %cI -Is)" '+%a %b %d %Y')
mkdir -p "$out"/{SOURCES,SPECS}
out=$(cd "$out" && pwd)
copy_files "$out/gaudi-fi-$version"
make_tarball "$out/gaudi-fi-$version" "$out/SOURCES/gaudi-fi-$version.tar.xz" "$(commit_date %cD -R)"
rm -rf "$out/gaudi-fi-$version"
spec=$out/SPECS/gaudi-fi.spec
sed -e "s/@VERSION@/$version/; s/@REVISION@/$revision/; s/@DATE@/$date/" "$root/util/package/rpm/gaudi-fi.spec.in" >"$spec"

options=(--define "_topdir $out")
rpm -q rpm >/dev/null 2>&1 || options+=(--nodeps)
echo "packages: building $version-$revision (log in $out/build.log)"
rpmbuild -ba "${options[@]}" "$spec" >"$out/build.log" 2>&1 || {
  tail -n 25 "$out/build.log" >&2
  echo "error: rpmbuild failed; its whole output is in $out/build.log" >&2
  exit 1
}
rm -rf "$out/BUILD" "$out/BUILDROOT"
if command -v rpmlint >/dev/null; then
  mapfile -d '' made < <(find "$out"/RPMS "$out"/SRPMS -name '*.rpm' -print0)
  rpmlint --config "$root/util/package/rpm/rpmlint.toml" "$spec" "${made[@]}" || {
    echo "error: rpmlint finds fault with the packages" >&2
    exit 1
  }
fi
find "$out/RPMS" "$out/SRPMS" -name '*.rpm' -printf '%f\n' | sort
