#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=dash
# First process of the guest: loads the modules, makes the machine's own files its root (what is written goes to
# memory), runs guest/run-tests.sh there and turns the guest off.
b=/bin/busybox
end() {
  [ -z "$1" ] || echo "guest: $1"
  $b sync
  $b poweroff -f
}

$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
  case $module in *-pclmul.ko) $b grep -q pclmulqdq /proc/cpuinfo || continue ;; esac
  $b insmod "$module" || end "cannot load $module"
done
echo "guest is up"
$b grep -q only_boot /proc/cmdline && end

# The machine's files do not change while the guest runs, so it may keep what it has read.
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host || end "no root"
$b mount -t tmpfs -o size=1g scratch /scratch
$b mkdir /scratch/upper /scratch/work
$b mount -t overlay -o lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work overlay /system || end "no overlay"
guest=$($b sed -n "s,.*guest=\([0-9]*\).*,\1,p" /proc/cmdline)
for folder in proc sys dev; do
  $b mount --move /$folder /system/$folder
done
$b mkdir -p /system/dev/shm /system/dev/pts
$b ln -s /proc/self/fd /system/dev/fd
$b mount -t tmpfs shm /system/dev/shm
$b mount -t devpts pts /system/dev/pts
$b mount -t tmpfs run /system/run
$b mkdir /system/run/vm
$b mount -t debugfs debugfs /system/sys/kernel/debug
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 shared /system/run/vm || end "no folder for the results"

export HOME=/ LANG=C TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
source=$($b sed -n "s,^VM_SOURCE=,,p" /system/run/vm/settings)
$b chroot /system "$source/tests/vm/guest/run-tests.sh"
echo $? >"/system/run/vm/status.$guest"
end
