#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A stranger's program on the stand-in: what hlsim(7) says under USE BY OTHER PROJECTS, word by word, its example and faults.
# Usage: hlsim_example.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1 source=$2
command -v pkg-config cc >/dev/null || { echo "no C compiler or no pkg-config here" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

cmake --install "$build" --component hlsim --prefix "$work/opt" >/dev/null
export PKG_CONFIG_PATH HLSIM_DIR=$work/devices
PKG_CONFIG_PATH=$(dirname "$(find "$work/opt" -name hlsim.pc)")
sed -n '/begin example.c/,/end example.c/p' "$source/man/hlsim.7" | sed '/^\./d' >"$work/example.c"
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$work/example.c" -o "$work/a.out" $(pkg-config --cflags --libs hlsim)
LD_LIBRARY_PATH=$(pkg-config --variable=libraries hlsim)
export LD_LIBRARY_PATH

said=$("$work/a.out")
[ "$said" = "every byte came back" ] || fail "the example said: $said"
said=$(HLSIM_FAULT=busy "$work/a.out" 2>&1) && fail "opened a device that is busy"
[[ $said == "no Gaudi: "* ]] || fail "of a busy device the example said: $said"
said=$(HLSIM_FAULT=cs-timeout "$work/a.out") && fail "a copy that timed out went well"
[ "$said" = "the device did not copy" ] || fail "of a copy that timed out the example said: $said"

# All three are there, and find each other, for a program that knows none of the others.
for name in hl-thunk scal Synapse; do
  [ -e "$LD_LIBRARY_PATH/lib$name.so" ] || fail "lib$name.so is not installed"
done
needs=$(env -u LD_LIBRARY_PATH ldd "$LD_LIBRARY_PATH/libSynapse.so")
[[ $needs == *"$LD_LIBRARY_PATH/libscal.so"* ]] ||
  fail "the installed libSynapse.so does not find its libscal.so"
[ -e "$(find "$work/opt" -name hlsim.7)" ] || fail "the manual page is not installed"
