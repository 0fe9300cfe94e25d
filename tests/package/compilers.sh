#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds all of the tree, warnings being errors, on systems of Debian's and Ubuntu's releases, with each compiler of theirs
# that it is for (GCC 11 to 14, clang 14 to 19), and runs the tests labelled quick there. A release whose libfabric is too old
# gets a 2.1 of its own. About ten minutes a compiler.
# Usage: compilers.sh SOURCE-FOLDER [SUITE[:COMPILER,...]...]      default: bookworm trixie jammy; COMPILER: g++-13, clang++-17
# Exits with 77 (skipped) where there is no mmdebstrap, no root, or no release could be had.
set -euo pipefail
source_dir=$1
shift
wanted=("$@")
((${#wanted[@]})) || wanted=(bookworm trixie jammy)
# shellcheck source=util/packages.sh
source "$source_dir/util/packages.sh"
# shellcheck source=tests/package/system.sh
source "$source_dir/tests/package/system.sh"

# Those of the system's packages that are in the range, as C++ compilers are called.
compilers_of() { # FOLDER
  inside "$1" apt-cache pkgnames | sed -n 's/^\(g++-1[1-4]\)$/\1/p; s/^clang-\(1[4-9]\)$/clang++-\1/p' | sort -V
}

package_of() { echo "${1/clang++/clang}"; }                   # COMPILER
c_compiler_of() { sed 's/clang++/clang/; s/g++/gcc/' <<<"$1"; } # COMPILER

# A libfabric that is new enough: the release's, or one built from the tarball that the tests of 2.1 use.
give_libfabric() { # FOLDER
  libfabric=(LD_LIBRARY_PATH=)
  if inside "$1" pkg-config --atleast-version=1.17 libfabric; then return; fi
  "$source_dir/util/get-libfabric-2.sh" --deps "$source_dir/build/deps" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "no libfabric 2.1"; }
  mkdir -p "$1/deps"
  cp "$source_dir"/build/deps/libfabric_*.orig.tar.xz "$1/deps"
  install_packages "$1" autoconf automake libtool make xz-utils
  run "$1" /tree/util/get-libfabric-2.sh --deps /deps
  local built=/deps/libfabric-2.1
  libfabric=("PKG_CONFIG_PATH=$built/lib/pkgconfig" "LD_LIBRARY_PATH=$built/lib" "PATH=$built/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

prepare() { # SUITE FOLDER
  make_system "$1" "$2"
  install_packages "$2" "${build_packages[@]}"
  mkdir "$2/tree"
  git -C "$source_dir" ls-files -z | tar -c -C "$source_dir" --null -T - | tar -x -C "$2/tree"
  give_libfabric "$2"
}

# A GCC older than the release's own has the C++ library of its time to link with, and the release's libraries want the newer.
library_folder() { dirname "$("${in[@]}" c++ -print-file-name=libstdc++.so)"; }

# One line says how it went; what failed is before it.
try_compiler() { # SUITE COMPILER
  local said status=0 versions
  install_packages "$system" "$(package_of "$2")"
  versions="$("${in[@]}" "$2" -dumpfullversion -dumpversion), $("${in[@]}" cmake --version | sed -n '1s/.* //p'), $("${in[@]}" pkg-config --modversion libfabric)"
  "${in[@]}" LDFLAGS="-L$(library_folder)" cmake -S /tree --preset release -B /built -DCMAKE_C_COMPILER="$(c_compiler_of "$2")" -DCMAKE_CXX_COMPILER="$2" >"$work/log" 2>&1 &&
    "${in[@]}" cmake --build /built -- -k 0 >>"$work/log" 2>&1 || status=$?
  if ((status)); then
    grep -E '(error|warning):|undefined reference|multiple definition' "$work/log" | sort -u | sed -n 1,20p
    said="DOES NOT BUILD"
  else
    "${in[@]}" ctest --test-dir /built -L quick -j "$(nproc)" --output-on-failure --no-tests=error >"$work/log" 2>&1 || status=$?
    ((!status)) || sed -n '/\*\*\*/,/ Start  *[0-9]/p' "$work/log" | tail -n 60
    said="built; $(sed -n 's/^\([0-9]*% tests passed.*\)/\1/p' "$work/log")"
  fi
  echo "$1 $2 ($versions): $said"
  rm -rf "$system/built"
  return $status
}

tried=0 failed=0
for one in "${wanted[@]}"; do
  suite=${one%%:*}
  rm -rf "$system"
  # In a process of its own, so that a release that cannot be had skips none but itself.
  set +e
  (set -e; prepare "$suite" "$system"; declare -p libfabric >"$work/libfabric")
  status=$?
  set -e
  ((status == 0 || status == 77)) || fail "$suite: no system to build on"
  if ((status)); then
    remove_system "$system"
    continue
  fi
  # shellcheck source=/dev/null
  source "$work/libfabric"
  in=(inside "$system" "${libfabric[@]}")
  if [[ $one == *:* ]]; then IFS=, read -ra compilers <<<"${one#*:}"; else mapfile -t compilers < <(compilers_of "$system"); fi
  for compiler in "${compilers[@]}"; do
    tried=$((tried + 1))
    try_compiler "$suite" "$compiler" || failed=$((failed + 1))
  done
  remove_system "$system"
done
((tried)) || skip "none of ${wanted[*]} could be had"
echo "$tried compilers, $failed failed"
((!failed))
