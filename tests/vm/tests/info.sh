# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# gaudi_info --doctor where zero copy works, where the NIC's driver takes no dma-bufs, where libfabric is too old for
# them, and where the Gaudi's driver exports none.
info=$VM_BUILD/util/gaudi_info

expect() { # STATUS VARIABLE=VALUE...
  local wanted=$1 status=0
  shift
  echo "-- env $*"
  env "$@" "$info" --doctor >"$output" || status=$?
  sed -n '/^Verdict/,$p' "$output"
  [[ $status == "$wanted" ]] || {
    cat "$output"
    echo "exit status $status, not $wanted"
    return 1
  }
}
output=$(mktemp)
expect 0 HLSIM_DEVICES=2
cat "$output"
expect 42 HLSIM_DEVICES=2 LD_PRELOAD=
expect 40 HLSIM_DEVICES=2 LD_LIBRARY_PATH=
expect 47 HLSIM_DEVICES=2 HLSIM_FAULT=no-dmabuf
expect 12 HLSIM_DEVICES=2 HLSIM_FAULT=1:busy
expect 13 HLSIM_DEVICES=2 HLSIM_FAULT=in-reset FI_GAUDI_DEVICE_TIMEOUT=0
expect 30 FI_GAUDI_RNDV=x
