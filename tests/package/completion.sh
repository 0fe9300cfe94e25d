#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# bash completes every long option that a tool's --help names, and the values of those that have few.
# Usage: completion.sh COMPLETION-FILE TOOL...
set -euo pipefail
# shellcheck source=util/install/completion.bash
source "$1"
shift
fail() { echo "$*" >&2; exit 1; }

completed() { # TOOL CURRENT PREVIOUS
  COMPREPLY=()
  _gaudi_fi "$1" "$2" "$3"
  printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

for tool in "$@"; do
  [[ $(complete -p "${tool##*/}") == *"-F _gaudi_fi"* ]] || fail "${tool##*/} is not completed"
  # Every word of the help that looks like an option, also in its sentences.
  mapfile -t options < <("$tool" --help | grep -oE '(^|[ ,])--[a-z][a-z-]+' | sed 's/^[ ,]//' | sort -u)
  ((${#options[@]} > 3)) || fail "$tool --help names no options"
  reply=$(completed "$tool" -- "$tool")
  [[ $reply == "$(printf '%s\n' "${options[@]}")" ]] || fail "$tool has ${options[*]}, and completes: $reply"
done
[[ $(completed gaudi_perf ta --op) == tagged ]] || fail "gaudi_perf --op ta"
[[ $(completed gaudi_rdma_check write_ --op) == write_imm ]] || fail "gaudi_rdma_check --op write_"
[[ $(completed gaudi_stress mi --memory) == mixed ]] || fail "gaudi_stress --memory mi"
[[ $(completed gaudi_perf dev --memory) == $'device\ndevice:' ]] || fail "gaudi_perf --memory dev"
for option in --plot --overlay; do
  [[ $(completed gaudi_perf "${BASH_SOURCE[0]}" $option) == "${BASH_SOURCE[0]}" ]] || fail "gaudi_perf $option offers no files"
done
echo "all options complete"
