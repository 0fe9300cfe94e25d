# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Memory of a device that does not copy: the NIC alone moves what is in it.
"$VM_BIN/integration_gaudi3" --gtest_filter='gaudi3.what_a_nic_reaches_needs_no_copies'
