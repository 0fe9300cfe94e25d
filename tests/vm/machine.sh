# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Booting QEMU and bringing back what happened in it. Sourced by run.sh.
# shellcheck shell=bash

# What this needs beyond the project's own build.
# shellcheck disable=SC2034  # run.sh installs them
vm_packages=(qemu-system-x86 gcc g++ make patch xz-utils libibverbs-dev librdmacm-dev ibverbs-providers iproute2
  openmpi-bin libopenmpi-dev)

# Boots with this machine's files as the root, read-only, and a folder that the guest may write to.
# One CPU, unless asked otherwise: emulated kernels with several have a race while they patch their code. Nor may the kernel
# check its timer against a loop of instructions: on a busy host it panics ("IO-APIC + timer doesn't work"). A plain CPU
# model: glibc would choose wide vectors on a newer one, which are slow to emulate. Programs and libraries are at the same
# addresses in all processes: QEMU translates code anew for each address at which it runs, and the start of /bin/true took 31
# instead of 13 ms.
boot() { # CACHE ACCEL SECONDS SHARED-FOLDER [KERNEL-ARGUMENT...]
  local cache=$1 accel=$2 seconds=$3 shared=$4 cpu=qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt counted=()
  shift 4
  [[ $accel == kvm ]] && cpu=host
  # 2 ns for each instruction, which is about what they take. With that which all servers' CPUs have for checksums: without
  # it they are half of what soft-RoCE does, and a NIC does not compute them by the CPU. Emulated it takes long by the clock.
  # shellcheck disable=SC2154  # of run.sh
  [[ $icount == yes ]] && counted=(-icount shift=1) cpu+=,+pclmulqdq
  # shellcheck disable=SC2154  # of run.sh
  timeout --foreground "$seconds" qemu-system-x86_64 -accel "$accel" "${counted[@]}" -M q35 -cpu "$cpu" -smp "$cpus" -m 2G \
    -nodefaults -display none -serial stdio -no-reboot \
    -kernel "$cache/vmlinuz" -initrd "$cache/initramfs" \
    -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host \
    -fsdev local,id=shared,path="$shared",security_model=none \
    -device virtio-9p-pci,fsdev=shared,mount_tag=shared \
    -append "console=ttyS0 panic=-1 quiet loglevel=1 mitigations=off nokaslr tsc=reliable no_timer_check norandmaps $*" </dev/null
}

# kvm where it can run this kernel (not every nested hypervisor's does), else tcg; found out once.
find_accel() { # CACHE
  local verdict=$1/accel
  if [[ ! -s $verdict ]]; then
    echo tcg >"$verdict"
    if [[ -w /dev/kvm && $(boot "$1" kvm 15 "$1" only_boot 2>&1) == *"guest is up"* ]]; then
      echo kvm >"$verdict"
    fi
  fi
  cat "$verdict"
}

# Runs the tests in `count` guests, each of which takes the next one when it has done with its last; their output goes to
# ours as it comes. Returns 0 if all passed.
run_machines() { # CACHE ACCEL SECONDS COUNT TEST...
  local cache=$1 accel=$2 seconds=$3 count=$4 guest running=() failed=0
  shift 4
  rm -rf "$cache/shared"
  mkdir -p "$cache"/shared/{tests,logs}
  (cd "$cache/shared/tests" && touch "$@")
  # shellcheck disable=SC2154  # of run.sh
  printf '%s=%q\n' VM_SOURCE "$root" VM_BUILD "$build" VM_CACHE "$cache" VM_ICOUNT "$icount" VM_QUIET "$quiet" >"$cache/shared/settings"
  echo "boot: $count x $(readlink "$cache/vmlinuz" | sed 's/.*vmlinuz-//') on $accel, tests: $*"
  for ((guest = 1; guest <= count; ++guest)); do
    run_machine "$cache" "$accel" "$seconds" "$guest" &
    running+=($!)
  done
  for guest in "${running[@]}"; do
    wait "$guest" || failed=1
  done
  if [[ -n $(ls "$cache/shared/tests") ]]; then
    echo "FAILED: not run: $(ls -m "$cache/shared/tests")"
    failed=1
  fi
  return "$failed"
}

run_machine() { # CACHE ACCEL SECONDS NUMBER
  local status=$1/shared/status.$4
  boot "$1" "$2" "$3" "$1/shared" "guest=$4" 2>&1 | sed -u "s/\r//g; s/^/$4| /" || true
  if [[ ! -s $status ]]; then
    echo "FAILED: guest $4 did not get to its end within $3 s; where each of the tests under way was:"
    find "$1/shared/logs" -name '*.log' -exec tail -n 20 {} +
    return 1
  fi
  return "$(<"$status")"
}
