# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# The stand-in's exports, which are real dma-bufs here.
"$VM_BUILD/tests/unit/hlsim/unit_hlsim" --gtest_filter='exporting.*'
"$VM_BUILD/tests/vm/export"
