# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Fetches the upstream tarball of one of Debian's source packages. For sourcing.
# shellcheck shell=bash

# Every archive base that apt is configured with; asks apt, so that all its source formats count.
# shellcheck disable=SC2016  # apt expands it, not the shell
archive_uris() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u
}

is_expected() { # FILE SHA256
  [[ -s $1 ]] && echo "$2  $1" | sha256sum --check --status
}

# To FOLDER/FILE, unless it is there; its place in the archive is that of source package NAME. What is fetched is run, so it is
# checked first. 1: no archive has it.
fetch_source() { # NAME FILE SHA256 FOLDER
  local uri target=$4/$2
  is_expected "$target" "$3" && return
  for uri in $(archive_uris); do
    curl -fsSL --retry 2 --max-time 300 -o "$target.part" "${uri%/}/pool/main/${1:0:1}/$1/$2" 2>/dev/null || continue
    is_expected "$target.part" "$3" && mv "$target.part" "$target" && return
  done
  rm -f "$target.part"
  return 1
}
