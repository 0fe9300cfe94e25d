# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The guest's kernel, its soft-RoCE module with dma-bufs, the initramfs that loads it, and a module whose dma-bufs are
# like an accelerator's. Sourced by run.sh.
# shellcheck shell=bash

kernel_files=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# The release that the patch was made for. A newer 6.12 serves where the archives have it no more.
kernel_release=6.12.117+deb12
kernel_source=linux-source-6.12

# In the order of their dependencies; what else the guest needs is built into Debian's kernel. init leaves crc32-pclmul out
# where the CPU does not have it.
guest_modules=(netfs 9pnet 9pnet_virtio 9p overlay
  ib_core ib_uverbs iw_cm ib_cm configfs rdma_cm rdma_ucm
  crc32_generic crc32-pclmul udp_tunnel ip6_udp_tunnel rdma_rxe dummy veth sch_netem sch_tbf inet_diag tcp_diag)

has_package() {
  apt-cache show --no-all-versions "$1" >/dev/null 2>&1
}

# Prints the release to use: the tested one, or the newest that apt knows.
choose_kernel() {
  if has_package "linux-image-$kernel_release-amd64"; then
    echo "$kernel_release"
    return
  fi
  apt-cache depends --important linux-image-6.12-amd64 linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: linux-image-\(6\.12\..*\)-amd64$/\1/p' | sed -n 1p
}

# Debian's packages carry the version that the release names.
download_packages() { # FOLDER RELEASE
  local folder=$1 release=$2 version
  version=$(apt-cache policy "linux-image-$release-amd64" | sed -n 's/^ *Candidate: //p')
  mkdir -p "$folder"
  (cd "$folder" && apt-get -q -o APT::Sandbox::User=root download \
    "linux-image-$release-amd64" "linux-headers-$release-amd64" "linux-headers-$release-common" \
    "linux-kbuild-$release" "$kernel_source=$version" busybox-static)
}

unpack_packages() { # FOLDER
  local folder=$1 package
  for package in "$folder"/debs/{linux-image,linux-headers,linux-kbuild,busybox}*.deb; do
    dpkg-deb -x "$package" "$folder" || return
  done
  # Of 150 MB of sources only this folder.
  dpkg-deb --fsys-tarfile "$folder"/debs/linux-source*.deb | tar -xO "./usr/src/$kernel_source.tar.xz" |
    tar -xJ -C "$folder" --strip-components=4 "$kernel_source/drivers/infiniband/sw/rxe"
}

build_module() { # FOLDER RELEASE NAME [SETTING...]
  local folder=$1 release=$2 name=$3
  shift 3
  make -s -C "$folder/usr/src/linux-headers-$release-amd64" M="$folder/$name" "$@" \
    CONFIG_DEBUG_INFO_BTF_MODULES= -j2 modules
}

build_rxe() { # FOLDER RELEASE
  local folder=$1 headers=$1/usr/src/linux-headers-$2-amd64
  # Made for /usr/src.
  sed -i "s#\([ =]\)/usr/src/#\1$folder/usr/src/#" "$headers/Makefile" "$headers/.kernelvariables" &&
    cat "$kernel_files"/rxe/*.patch | patch -d "$folder/rxe" -p1 &&
    build_module "$folder" "$2" rxe CONFIG_RDMA_RXE=m
}

# Not in the initramfs: the tests load it.
build_fakegaudi() { # FOLDER RELEASE
  local folder=$1/fakegaudi
  diff -q "$kernel_files/fakegaudi/fakegaudi.c" "$folder/fakegaudi.c" >/dev/null 2>&1 &&
    [[ -f $folder/fakegaudi.ko ]] && return
  rm -rf "$folder"
  cp -r "$kernel_files/fakegaudi" "$folder" && build_module "$1" "$2" fakegaudi
}

# busybox, init and the modules, numbered by the order in which init loads them.
pack_initramfs() { # FOLDER RELEASE
  local folder=$1 tree=$1/initramfs name found number=10
  rm -rf "$tree"
  mkdir -p "$tree"/{bin,modules,proc,sys,dev,host,scratch,system}
  cp "$folder/bin/busybox" "$tree/bin/"
  install -m 755 "$kernel_files/guest/init.sh" "$tree/init"
  for name in "${guest_modules[@]}"; do
    found=$(find "$folder/lib/modules/$2-amd64" -name "$name.ko*" -print -quit)
    [[ $name == rdma_rxe ]] && found=$folder/rxe/rdma_rxe.ko
    case $found in
      '') echo "the kernel has no module $name"; return 1 ;;
      *.xz) xz -dc "$found" ;;
      *) cat "$found" ;;
    esac >"$tree/modules/$((number++))-$name.ko" || return
  done
  strip --strip-debug "$tree"/modules/*.ko &&
    (cd "$tree" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null) >"$folder/initramfs.cpio"
}

# Downloads and builds once for each release and all patches; afterwards only our own module and the initramfs can be out
# of date.
make_kernel() { # CACHE
  local cache=$1 release folder wanted log
  release=$(choose_kernel)
  if [[ -z $release ]]; then
    echo "apt knows no Linux 6.12 (linux-image-6.12-amd64: bookworm-security, trixie); try apt-get update"
    return 1
  fi
  folder=$cache/kernel
  log=$cache/kernel.log
  wanted="$release $(cat "$kernel_files"/rxe/*.patch | sha256sum)"
  if [[ ! -f $folder/.made || $(<"$folder/.made") != "$wanted" ]]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    echo "kernel $release: download (280 MB)"
    download_packages "$folder/debs" "$release" >"$log" 2>&1 || { tail -n 5 "$log"; return 1; }
    echo "kernel $release: unpack, and build soft-RoCE with dma-bufs (half a minute, log in $log)"
    (unpack_packages "$folder" && build_rxe "$folder" "$release") >>"$log" 2>&1 ||
      { tail -n 15 "$log"; return 1; }
    rm -rf "$folder"/debs
    echo "$wanted" >"$folder/.made"
  fi
  build_fakegaudi "$folder" "$release" >>"$log" 2>&1 || { tail -n 15 "$log"; return 1; }
  pack_initramfs "$folder" "$release" || return
  ln -sf "kernel/boot/vmlinuz-$release-amd64" "$cache/vmlinuz"
  ln -sf kernel/initramfs.cpio "$cache/initramfs"
}

# rdma-core's half of soft-RoCE has no dma-bufs either.
make_shim() { # CACHE
  gcc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -o "$1/libibverbs-dmabuf.so" "$kernel_files/rxe/reg_dmabuf_mr.c"
}

# Debian's libfabric loads libpsm2, whose constructor measures the CPU's clock. Where a busy host makes the measurement come
# out wrong it says so, with instructions that the emulated CPU lacks. There is no Omni-Path in the guest: this one has the
# names, and a failure for whoever calls them.
make_psm2_stand_in() { # CACHE
  local real names=$1/libpsm2.names
  for real in /usr/lib/*/libpsm2.so.2; do
    [[ -f $real ]] || return 0
    nm -D --defined-only "$real" | sed -n 's/.* [TW] \([a-z0-9_]*\)@@PSM2_1.0$/\1/p' >"$names"
    {
      echo 'const char* psm2_error_get_string(int code) { (void)code; return "no Omni-Path"; }'
      sed '/^psm2_error_get_string$/d; s/.*/int &(void) { return -1; }/' "$names"
    } >"$names.c"
    echo 'PSM2_1.0 { global: *; };' >"$names.map"
    gcc -std=c11 -O2 -Werror -shared -fPIC -Wl,-soname,libpsm2.so.2 -Wl,--version-script="$names.map" \
      -o "$1/libpsm2.so.2" "$names.c"
  done
}
