/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the MPI test programs share: patterns that tell where bytes came from, and a way to fail. */
#ifndef GAUDI_MPI_CHECK_H
#define GAUDI_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

/* Ends the whole job with a line that says what is wrong. */
static inline void require(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: WRONG: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline unsigned char byte_at(unsigned seed, int i) {
  return (unsigned char)(((unsigned)(i + 1) * 2654435761u) >> 24 ^ seed ^ seed >> 8);
}

static inline void fill(unsigned char* buffer, int size, unsigned seed) {
  for (int i = 0; i < size; i++) buffer[i] = byte_at(seed, i);
}

static inline int is_filled(const unsigned char* buffer, int size, unsigned seed) {
  for (int i = 0; i < size; i++)
    if (buffer[i] != byte_at(seed, i)) return 0;
  return 1;
}

static inline unsigned char* allocate(size_t size) {
  unsigned char* memory = malloc(size ? size : 1);
  require(memory != NULL, "memory");
  return memory;
}

static inline void begin(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* run.sh looks for this line. */
static inline void end(const char* what) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%s between %d ranks: all verified\n", what, ranks);
  MPI_Finalize();
}

#endif
