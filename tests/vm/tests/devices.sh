# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Eight Gaudis in one process with the same addresses, which the NIC must not take for each other.
"$VM_BIN/integration_devices"
