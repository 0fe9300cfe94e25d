#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In the guest: brings up soft-RoCE, runs the tests that lie in /run/vm/tests, says how each one went.
# Ends with 1 if one failed or the kernel complained.
set -euo pipefail

# Written by machine.sh: VM_SOURCE, VM_BUILD, VM_CACHE, VM_ICOUNT, VM_QUIET.
# shellcheck source=/dev/null
source /run/vm/settings
export VM_SOURCE VM_BUILD VM_CACHE VM_ICOUNT

set_up() {
  dmesg -n 1 # libfabric tries what soft-RoCE refuses, and that is logged each time
  # Two processes that poll share the one CPU: let them take turns sooner than each 4 ms.
  echo 100000 >/sys/kernel/debug/sched/base_slice_ns
  echo guest >/proc/sys/kernel/hostname # mpirun wants one that can be a host's
  ip link set lo up
  ip link add eth0 type dummy
  ip link set eth0 mtu 9000 up
  ip address add 10.0.0.1/24 dev eth0
  rdma link add rxe0 type rxe netdev eth0
  load_fakegaudi
  shorten_symbols
  replace_psm2
  ulimit -l unlimited
}

# Each process that opens libfabric's verbs provider looks through all of the kernel's symbols for this one, which is at
# their end: seconds where it is emulated.
shorten_symbols() {
  grep -w ib_umem_dmabuf_get /proc/kallsyms >/run/kallsyms || true
  mount --bind /run/kallsyms /proc/kallsyms
}

# See make_psm2_stand_in in tests/vm/kernel.sh.
replace_psm2() {
  local real
  for real in /usr/lib/*/libpsm2.so.2; do
    [[ ! -f $real ]] || mount --bind "$VM_CACHE/libpsm2.so.2" "$(realpath "$real")"
  done
}

# With it no program can mmap the dma-bufs of the simulated Gaudis.
load_fakegaudi() {
  "$VM_CACHE/kernel/bin/busybox" insmod "$VM_CACHE/kernel/fakegaudi/fakegaudi.ko"
}

# Fails while one of its dma-bufs is in use.
unload_fakegaudi() {
  "$VM_CACHE/kernel/bin/busybox" rmmod fakegaudi
}

# What every test sees: the provider on libfabric 2.1's verbs, Gaudis with little memory.
environment() {
  export LD_LIBRARY_PATH=$VM_BUILD/deps/libfabric-2.1/lib LD_PRELOAD=$VM_CACHE/libibverbs-dmabuf.so
  export FI_PROVIDER_PATH=$VM_BUILD/prov FI_GAUDI_CORE=verbs FI_GAUDI_IPC=off # the NIC's part is what is tested here
  export FI_GAUDI_HLTHUNK=$VM_BUILD/util/hlsim/libhl-thunk.so
  # A second may pass in an emulated guest without anything being done: no link is lost but where a test is about that.
  export FI_GAUDI_LINK_TIMEOUT=60000 FI_GAUDI_RECONNECT_TIMEOUT=600
  export HLSIM_DEVICES=4 HLSIM_HBM=128M HLSIM_HBM_PAGE=16M
  export VM_BIN=$VM_BUILD/tests/integration
  export -f load_fakegaudi unload_fakegaudi
  export HCL_PROVIDER_PATH=$VM_BUILD/prov/ofi_gaudi
  ulimit -c 0
}

# The kernel's own findings, which no program would notice.
kernel_is_well() {
  ! dmesg | grep -E 'WARNING:|BUG:|Oops|general protection|refcount_t|INFO: task'
}

# The next test, which no other guest has then. The last of the alphabet first: they take longest.
take_test() {
  local names name
  mapfile -t names < <(ls -r /run/vm/tests)
  for name in "${names[@]}"; do
    unlink "/run/vm/tests/$name" 2>/dev/null && echo "$name" && return
  done
  return 1
}

# What it prints goes to a file, and that to ours as it comes unless it is to be quiet.
run_test() { # NAME LOG
  local test=(timeout 600 bash -euo pipefail "$VM_SOURCE/tests/vm/tests/$1.sh")
  if [[ $VM_QUIET == yes ]]; then
    "${test[@]}" </dev/null >"$2" 2>&1
  else
    "${test[@]}" </dev/null 2>&1 | tee "$2"
  fi
}

# What tells of the failure: the end, without the tests that passed.
show_failure() { # LOG
  [[ $VM_QUIET == yes ]] || return 0
  grep -vE '^\[ +(RUN|OK) +\]|^\[-+\]|^$' "$1" | tail -n 60
}

set_up
environment
failed=0
while name=$(take_test); do
  echo "== $name"
  begin=$SECONDS
  log=/run/vm/logs/$name.log
  if run_test "$name" "$log"; then
    echo "PASSED $name ($((SECONDS - begin)) s)"
    mv "$log" "$log.passed"
  else
    echo "FAILED $name ($((SECONDS - begin)) s)"
    show_failure "$log"
    failed=1
  fi
done
if ! unload_fakegaudi; then
  echo "FAILED: a dma-buf was left behind"
  failed=1
fi
if ! kernel_is_well; then
  dmesg | tail -n 60
  echo "FAILED: the kernel complained (above)"
  failed=1
fi
exit "$failed"
