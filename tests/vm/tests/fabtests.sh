# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Upstream's fabtests over verbs: a program for each feature of the interface, few iterations.
"$VM_SOURCE/fabtests/run.sh" --build "$VM_BUILD" --libfabric 2.x-verbs --address 10.0.0.1 \
  --from "$VM_SOURCE/fabtests/vm.list" --timeout 30
