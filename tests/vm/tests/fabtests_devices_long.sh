# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Upstream's fabtests with Synapse's device memory at both ends, over verbs: on Gaudi2s, and on Gaudi3s, which have no engine that
# copies, so that the NIC does. The same list: what the one passes the other does.
export FI_GAUDI_IPC=off
failed=0
for generation in 2 3; do
  echo "Gaudi$generation"
  HLSIM_GENERATION=$generation "$VM_SOURCE/fabtests/run.sh" --build "$VM_BUILD" --libfabric 2.x-verbs-synapse --address 10.0.0.1 \
    --from "$VM_SOURCE/fabtests/synapse_vm.list" --timeout 60 || failed=1
done
exit $failed
