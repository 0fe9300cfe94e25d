# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What packages of every kind are made from: sourced by util/package.sh and util/package/rpm.sh, which set `root`.
# shellcheck shell=bash disable=SC2154

# The release has one place.
release() {
  sed -n 's/^project(gaudi-fi VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt"
}

# Of the last commit, so that the same tree makes the same packages.
commit_date() { # FORMAT-OF-GIT FORMAT-OF-DATE
  git -C "$root" log -1 --format="$1" 2>/dev/null || date "$2"
}

files() {
  if git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
    git -C "$root" ls-files -z --cached --others --exclude-standard
  else
    cd "$root" && find . -path './build*' -prune -o -type f -printf '%P\0'
  fi
}

# The files as they are now, in a folder of their own.
copy_files() { # FOLDER
  rm -rf "$1"
  mkdir -p "$1"
  files | LC_ALL=C sort -z | tar -C "$root" --null --no-recursion --ignore-failed-read -T - -cf - 2>/dev/null |
    tar -C "$1" -xf -
}

# A tarball of such a folder, the same for the same files and time.
make_tarball() { # FOLDER TARBALL TIME
  tar -C "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner --mtime="$3" -cJf "$2" "$(basename "$1")"
}
