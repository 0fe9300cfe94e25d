// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

// Compiled before all else into a copy of the tree that has mutants in it (tests/tools/mutate).
// GAUDI_MUTANT names the active one; with GAUDI_MUTANT_REACHED=FILE none is. FILE.map then has a
// byte for each mutant whose place was come by, by whichever process; and FILE gets a line for each
// test that is told of below: its name, the microseconds that it took, and its mutants.
extern int gaudi_active_mutant;
extern unsigned char* gaudi_reached_mutants;

inline bool gaudi_mutant(int number) noexcept {
  if (gaudi_reached_mutants) gaudi_reached_mutants[number] = 1;
  return gaudi_active_mutant == number;
}

/// A lock of the same kind that nobody else takes.
template <class Lock>
Lock& gaudi_nobodys(Lock&) {
  return *new Lock;
}

/// A test begins, or has ended.
void gaudi_test_begins() noexcept;
void gaudi_test_ended(const char* name) noexcept;
