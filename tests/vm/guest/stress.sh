# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# What tests of links that fail have gaudi_stress do.

# All that goes on over a connection; where one is made again on purpose, operations may fail.
operations=send,inject,senddata,tsend,tinject,tsenddata,write,writedata,read,atomic,fetch,compare,cancel
operations+=,peek,claim,discard,multirecv,counters
# An emulated guest may take long to do nothing.
export FI_GAUDI_RECONNECT_TIMEOUT=3600
