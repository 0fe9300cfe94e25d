# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# An RDMA device on dma-bufs that are like an accelerator's, without the provider between them.
[[ -c /dev/fakegaudi ]]
"$VM_BUILD/tests/vm/verbs"
