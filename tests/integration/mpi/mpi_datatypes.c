/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Derived datatypes on one side or on both: vectors, indexed blocks, structures, subarrays, from a
 * few bytes to megabytes. What lies between the blocks must stay as it is.
 */
#include <stddef.h>
#include <string.h>

#include "mpi_check.h"

enum { gap = 0x5a };

static int next, previous;

/* A value for the i-th element that rank `of` sends. */
static int element(int of, int i) {
  return (int)((unsigned)i * 2654435761u) ^ of;
}

/* Blocks of 3 integers in every 5, out and in. */
static void vectors(int blocks) {
  const int length = blocks * 5;
  int* out = malloc((size_t)length * sizeof *out);
  int* in = malloc((size_t)length * sizeof *in);
  require(out && in, "memory");
  for (int i = 0; i < length; i++) out[i] = element(rank, i);
  memset(in, gap, (size_t)length * sizeof *in);
  MPI_Datatype strided;
  MPI_Type_vector(blocks, 3, 5, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  MPI_Sendrecv(out, 1, strided, next, 1, in, 1, strided, previous, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  int untouched;
  memset(&untouched, gap, sizeof untouched);
  for (int i = 0; i < length; i++)
    require(in[i] == (i % 5 < 3 ? element(previous, i) : untouched), "element of a vector");

  /* The same elements, packed at the receiver. */
  memset(in, gap, (size_t)length * sizeof *in);
  MPI_Sendrecv(out, 1, strided, next, 2, in, blocks * 3, MPI_INT, previous, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < blocks * 3; i++)
    require(in[i] == element(previous, i / 3 * 5 + i % 3),
            "element of a vector sent, an array received");
  MPI_Type_free(&strided);
  free(out);
  free(in);
}

/* Blocks that grow, in reverse order. */
static void indexed(void) {
  enum { blocks = 100, length = blocks * (blocks + 1) };
  static int out[length], in[length];
  int lengths[blocks], starts[blocks];
  int at = length;
  for (int b = 0; b < blocks; b++) {
    lengths[b] = b + 1;
    at -= 2 * (b + 1) - 1;
    starts[b] = at;
  }
  for (int i = 0; i < length; i++) out[i] = element(rank, i);
  memset(in, gap, sizeof in);
  MPI_Datatype type;
  MPI_Type_indexed(blocks, lengths, starts, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Sendrecv(out, 1, type, next, 3, in, 1, type, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int received = 0;
  for (int b = 0; b < blocks; b++)
    for (int i = starts[b]; i < starts[b] + lengths[b]; i++, received++)
      require(in[i] == element(previous, i), "element of an indexed type");
  int untouched, kept = 0;
  memset(&untouched, gap, sizeof untouched);
  for (int i = 0; i < length; i++) kept += in[i] == untouched;
  require(kept == length - received, "elements between indexed blocks");
  MPI_Type_free(&type);
}

struct record {
  char kind;
  double value;
  int numbers[3];
};

static void structures(int count) {
  struct record* out = calloc((size_t)count, sizeof *out);
  struct record* in = calloc((size_t)count, sizeof *in);
  require(out && in, "memory");
  for (int i = 0; i < count; i++)
    out[i] = (struct record){(char)(rank + i), rank * 1000.0 + i, {element(rank, i), i, -i}};
  const int lengths[] = {1, 1, 3};
  const MPI_Aint starts[] = {offsetof(struct record, kind), offsetof(struct record, value),
                             offsetof(struct record, numbers)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype packed, type;
  MPI_Type_create_struct(3, lengths, starts, types, &packed);
  MPI_Type_create_resized(packed, 0, sizeof(struct record), &type);
  MPI_Type_commit(&type);
  MPI_Status status;
  int got;
  MPI_Sendrecv(out, count, type, next, 4, in, count, type, previous, 4, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, type, &got);
  require(got == count, "number of structures");
  for (int i = 0; i < count; i++)
    require(in[i].kind == (char)(previous + i) && in[i].value == previous * 1000.0 + i &&
                in[i].numbers[0] == element(previous, i) && in[i].numbers[1] == i &&
                in[i].numbers[2] == -i,
            "a structure");
  MPI_Type_free(&packed);
  MPI_Type_free(&type);
  free(out);
  free(in);
}

/* The inner block of a matrix. */
static void subarrays(int side) {
  const int whole[] = {side, side}, part[] = {side / 2, side / 3}, start[] = {side / 4, side / 3};
  int* out = malloc((size_t)side * (size_t)side * sizeof *out);
  int* in = calloc((size_t)side * (size_t)side, sizeof *in);
  require(out && in, "memory");
  for (int i = 0; i < side * side; i++) out[i] = element(rank, i) | 1;
  MPI_Datatype type;
  MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Request request;
  MPI_Irecv(in, 1, type, previous, 5, MPI_COMM_WORLD, &request);
  MPI_Ssend(out, 1, type, next, 5, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int row = 0; row < side; row++)
    for (int column = 0; column < side; column++) {
      const int i = row * side + column;
      const int inside = row >= start[0] && row < start[0] + part[0] && column >= start[1] &&
                         column < start[1] + part[1];
      require(in[i] == (inside ? element(previous, i) | 1 : 0), "element of a subarray");
    }
  MPI_Type_free(&type);
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  vectors(1);
  vectors(1500);
  vectors(100000);
  indexed();
  structures(1);
  structures(700);
  structures(50000);
  subarrays(12);
  subarrays(1000);
  end("datatypes");
}
