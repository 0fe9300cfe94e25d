# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The rig itself: an RDMA device, real dma-bufs, and a libfabric whose verbs provider sees both.
[[ $(rdma link) == *"link rxe0/1 state ACTIVE"* ]]
[[ -c /dev/udmabuf ]]
grep -q ib_umem_dmabuf_get /proc/kallsyms
FI_PROVIDER=verbs "$VM_BUILD/deps/libfabric-2.1/bin/fi_info" -p verbs -t FI_EP_MSG | sed -n 1,6p
