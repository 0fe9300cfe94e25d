#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds MPICH where that is not done yet, and runs its tests (build.sh, run.py); the report ends with what fails over this
# provider only. 77: skipped, with the reason.
#   ci.sh BUILD-FOLDER [OPTION-OF-RUN...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
status=0
mpich=$("$here/build.sh" --build "$1") || status=$?
[[ $status == 77 && ${CI:-} == true ]] && exit 1
[[ $status == 0 ]] || exit "$status"
exec python3 -B "$here/run.py" "$mpich" --log "$1/mpich-failures" "${@:2}"
