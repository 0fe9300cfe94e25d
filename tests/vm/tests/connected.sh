# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# Connected endpoints (FI_EP_MSG) over verbs, in host and in device memory.
"$VM_BIN/integration_connected"
