#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What fi_info shows of devices, and what it says of variables that are wrong, on two simulated Gaudis.
# Usage: fi_info.sh PROVIDER-FOLDER STAND-IN
set -euo pipefail
command -v fi_info >/dev/null || { echo "fi_info (package libfabric-bin) is not installed" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-fi-info.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work/warnings" >&2; exit 1; }

show() { # VARIABLE=VALUE...
  env -u FI_PROVIDER FI_PROVIDER_PATH="$providers" FI_GAUDI_HLTHUNK="$library" HLSIM_DIR="$work/devices" HLSIM_DEVICES=2 \
    FI_GAUDI_CORE=tcp FI_LOG_LEVEL=warn "$@" fi_info -p gaudi 2>"$work/warnings"
}
providers=$1 library=$2

# The entries with device memory name it, the others do not.
labels() { show "$@" | sed -n 's/^ *domain: gaudi-[^@]*@//p' | sort -u; }
expect_label() { # LABEL VARIABLE=VALUE...
  local found
  found=$(labels "${@:2}")
  [[ $found == "$1" ]] || fail "${*:2}: the entries with device memory are for '$found', not '$1'"
}
expect_label any FI_GAUDI_DEVICE=
expect_label gaudi1 FI_GAUDI_DEVICE=1
expect_label gaudi1 FI_GAUDI_DEVICE=module:1
expect_label gaudi1,0 FI_GAUDI_DEVICE=1,0
expect_label gaudi0,1 FI_GAUDI_DEVICE=all
expect_label gaudi0 HLSIM_DEVICES=1
plain=$(show FI_GAUDI_DEVICE=0 | grep -cE '^ *domain: gaudi-[^@]*$')
((plain > 0)) || fail "no entry for host memory alone"
[[ ! -s $work/warnings || $(<"$work/warnings") != *":gaudi:"*"<warn>"* ]] || fail "warnings where nothing is wrong"

count() { grep -c "$1" "$work/warnings" || true; }
expect_refused() { # WHAT VARIABLE=VALUE...
  ! show "${@:2}" >/dev/null || fail "${*:2} is not refused"
  (($(count "$1") == 1)) || fail "${*:2}: not one warning that says: $1"
}
expect_refused 'device 5 is not a Gaudi of this machine, which has 2 (index 0,1)' FI_GAUDI_DEVICE=5
expect_refused 'module 7 is not a Gaudi' FI_GAUDI_DEVICE=0,module:7
expect_refused 'device 0000:ff:00.0 is not a Gaudi' FI_GAUDI_DEVICE=ff:00.0
expect_refused '"zero" is not a device' FI_GAUDI_DEVICE=zero
# Without any Gaudi there is none to choose from, and host memory is of use.
show FI_GAUDI_DEVICE=5 FI_GAUDI_HLTHUNK=/no/such/library.so >/dev/null || fail "no host memory without a Gaudi"

show FI_GAUDI_EAGERSIZE=4096 >/dev/null || fail "a misspelt variable is refused"
(($(count 'FI_GAUDI_EAGERSIZE .*did you mean FI_GAUDI_EAGER_SIZE?') == 1)) || fail "not one warning for a misspelt variable"
echo "fi_info: all as expected"
