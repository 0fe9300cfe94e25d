#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs one of the integration programs, which are linked against the system's libfabric, on libfabric 2.x.
#   on_libfabric_2.sh PROGRAM LIBFABRIC-2-FOLDER
# 77: skipped, with the reason.
set -euo pipefail

program=$1 folder=${GAUDI_LIBFABRIC2:-$2}
if [[ ! -e $folder/lib/libfabric.so.1 ]]; then
  echo "skipped: no libfabric 2.x (util/get-libfabric-2.sh builds one)"
  [[ ${CI:-} == true ]] && exit 1
  exit 77
fi
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# The proof that it is not the system's. Not in a pipe: grep -q closes it early, and ldd's end by a signal would count.
libraries=$(ldd "$program")
[[ $libraries == *"libfabric.so.1 => $folder/"* ]] || { echo "the program would not load $folder"; exit 1; }
exec "$program" --gtest_filter='-*_slow.*'
