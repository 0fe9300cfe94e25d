# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the tests of sanitizer builds run with; to be sourced.

# libfabric itself needs no suppressions. called_from_lib must not come back for it: TSan then misses
# a lock that libfabric takes when it unloads, and reports the unlock.
set_sanitizer_options() { # MILLISECONDS that TSan waits at the end of a process for what its threads still do
  local tools
  tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1
  # GCC 12's LeakSanitizer now and then crashes on the thread-local blocks of a process that is ending.
  export LSAN_OPTIONS=use_tls=0:print_suppressions=0:suppressions=$tools/lsan.supp
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  export TSAN_OPTIONS=atexit_sleep_ms=$1:second_deadlock_stack=1:suppressions=$tools/tsan.supp
}
