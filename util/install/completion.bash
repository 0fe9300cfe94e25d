# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Completion for gaudi_info, gaudi_perf, gaudi_rdma_check, gaudi_stress and gaudi_top. The options come from the tool's own
# --help, so they are those of the installed release.
# shellcheck shell=bash

# Words to offer after an option that takes one of a few values; nothing for any other.
_gaudi_fi_values() { # TOOL OPTION
  case $1:$2 in
    gaudi_perf:--op) echo send tagged write read ;;
    gaudi_rdma_check:--op) echo all send write write_imm read ;;
    gaudi_stress:--memory) echo host device mixed ;;
    *:--memory) echo host device device: ;;
  esac
}

# The processes of this user, all of root's.
_gaudi_fi_pids() {
  local folder
  for folder in /proc/[0-9]*; do
    [[ -r $folder/fd && -O $folder || $EUID == 0 ]] && echo "${folder##*/}"
  done
}

_gaudi_fi() {
  local tool=${1##*/} current=$2 previous=$3 words
  COMPREPLY=()
  words=$(_gaudi_fi_values "$tool" "$previous")
  if [[ -z $words && $current == -* ]]; then
    words=$("$1" --help 2>/dev/null | sed -n 's/^ *\(-[a-zA-Z],\)\{0,1\}\(--[a-z-]*\).*/\2/p')
  fi
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  elif [[ $previous == --sysfs ]]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
  elif [[ $previous == --pid || $previous == --why ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_gaudi_fi_pids)" -- "$current")
  elif [[ $previous == --openmetrics || $previous == --plot || $previous == --overlay ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $current != -* && $tool != gaudi_info && $tool != gaudi_top ]]; then
    mapfile -t COMPREPLY < <(compgen -A hostname -- "$current")
  fi
}

complete -F _gaudi_fi gaudi_info gaudi_perf gaudi_rdma_check gaudi_stress gaudi_top
