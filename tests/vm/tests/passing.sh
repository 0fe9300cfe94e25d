# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A NIC reads the device memory of another process by a dma-buf that this one passes.
export FI_GAUDI_IPC=auto
"$VM_BUILD/tests/vm/passing"
