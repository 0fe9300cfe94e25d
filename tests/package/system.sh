# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# New systems of Debian's and Ubuntu's releases, each in a folder. Sourced by tests: $work is a folder, and $system where a
# system goes, both removed at the end. Commands that fail show the end of their output, which is in $work/log.
# shellcheck shell=bash

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "$*" >&2; exit 1; }
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
((EUID == 0)) || skip "only root may enter a chroot"
work=$(mktemp -d "${TMPDIR:-/tmp}/gaudi-system.XXXXXX")
system=$work/system
trap 'remove_system "$system"; rm -rf --one-file-system "$work"' EXIT

# Where a release comes from, if not from where mmdebstrap takes it: GAUDI_UBUNTU_ARCHIVE is the middle of a line of apt's
# sources, "[option=value] http://host/ubuntu".
archive_of() { # SUITE
  case $1 in
    jammy | noble) [[ -z ${GAUDI_UBUNTU_ARCHIVE:-} ]] || echo "deb $GAUDI_UBUNTU_ARCHIVE $1 main universe" ;;
  esac
}

# Processes there share memory, look into each other's /proc and open terminals.
make_system() { # SUITE FOLDER
  local archive
  archive=$(archive_of "$1")
  mmdebstrap --variant=apt "$1" "$2" ${archive:+"$archive"} >"$work/log" 2>&1 </dev/null || {
    tail -n 5 "$work/log"
    skip "no system of $1"
  }
  mount -t proc proc "$2/proc"
  mkdir -p "$2/dev/shm" "$2/dev/pts"
  mount -t tmpfs tmpfs "$2/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$2/dev/pts"
  ln -sf pts/ptmx "$2/dev/ptmx"
  [[ -e $2/etc/hosts ]] || echo "127.0.0.1 localhost" >"$2/etc/hosts"
  run "$2" apt-get update
}

remove_system() { # FOLDER
  umount -q "$1/proc" "$1/dev/shm" "$1/dev/pts" 2>/dev/null || true
  rm -rf --one-file-system "$1"
}

inside() { # FOLDER [VARIABLE=VALUE...] COMMAND...
  chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2}"
}

run() { # FOLDER COMMAND...
  inside "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; fail "in $1: ${*:2} failed"; }
}

install_packages() { # FOLDER PACKAGE...
  run "$1" apt-get install -y --no-install-recommends "${@:2}"
}
