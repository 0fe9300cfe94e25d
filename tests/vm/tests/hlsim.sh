# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The stand-in's exports, which are real dma-bufs here: udmabuf's, then those that are like an accelerator's.
exports() {
  "$VM_BUILD/tests/unit/hlsim/unit_hlsim" --gtest_filter='exporting.*'
  "$VM_BUILD/tests/vm/export"
}

unload_fakegaudi
exports
load_fakegaudi
exports
