#compdef gaudi_info gaudi_perf gaudi_rdma_check gaudi_stress gaudi_top
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# From the tool's own --help.
_gnu_generic "$@"
