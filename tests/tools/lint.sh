#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# One linter over the tree, as a ctest test. Usage: lint.sh format|tidy|shell SOURCE-FOLDER BUILD-FOLDER
# Exits with 77 (skipped) where the tool is missing, unless CI=true: there it must not be.
set -euo pipefail

source_dir=$2
build_dir=$3

need() { # TOOL
  command -v "$1" >/dev/null && return
  echo "$1 is not installed; util/run-tests.sh installs it"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
}

# include/ is C in the layout of libfabric's own headers.
check_format() {
  need clang-format-14
  find "$source_dir"/{prov,util,tests} -regex '.*\.[ch]\(pp\)?' -print0 |
    xargs -0 -r clang-format-14 --dry-run --Werror
}

# Tests are left out: they take most of the time, and their names follow GoogleTest's habits.
check_tidy() {
  need clang-tidy-14
  "$source_dir/tests/tools/tidy.py" "$source_dir" "$build_dir/tidy"
}

check_shell() {
  need shellcheck
  # Sourced files are named from the root.
  cd "$source_dir"
  local scripts
  mapfile -d '' scripts < <(find "$source_dir"/{util,tests,fabtests,.ci} \( -name '*.sh' -o -name run \) -type f -print0)
  shellcheck -x "${scripts[@]}"
  # Whoever writes to them after they have seen enough ends by SIGPIPE, which pipefail takes for a failure, now and then.
  if grep -nE '[^|]\| *(head|grep -[a-zA-Z]*q)' "${scripts[@]}"; then
    echo "a pipe into grep -q or head fails by chance: compare with \$(...), or read all of it"
    return 1
  fi
}

"check_$1"
