#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The tests of a list for ctest:  ci.sh BUILD-FOLDER RELEASE [LIST]
# 77: skipped, with the reason; with CI=true that is a failure.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Beside other tests that keep all CPUs busy, what takes 30 s alone takes a minute and more.
"$here/run.sh" --build "$1" --libfabric "$2" --timeout 180 --from "$here/${3:-ci.list}"
status=$?
if ((status == 77)); then
  echo "skipped: no fabtests for libfabric $2 (util/get-libfabric-2.sh fetches their source)"
  [[ ${CI:-} == true ]] && exit 1
fi
exit $status
