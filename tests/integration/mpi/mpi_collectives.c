/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collective operations, blocking and not, on all ranks and on the halves of them, short and long,
 * with equal and with different contributions.
 */
#include "mpi_check.h"

static int me, members;
static MPI_Comm comm;

static int value(int of, int i) {
  return of * 7919 + i;
}

static int* numbers(int count) {
  int* memory = malloc((size_t)(count ? count : 1) * sizeof *memory);
  require(memory != NULL, "memory");
  return memory;
}

static void from_and_to_one(int count) {
  for (int root = 0; root < members; root++) {
    int* data = numbers(count);
    int* all = numbers(count * members);
    for (int i = 0; i < count; i++) data[i] = me == root ? value(root, i) : -1;
    MPI_Bcast(data, count, MPI_INT, root, comm);
    for (int i = 0; i < count; i++) require(data[i] == value(root, i), "broadcast");
    for (int i = 0; i < count; i++) data[i] = value(me, i);
    MPI_Gather(data, count, MPI_INT, all, count, MPI_INT, root, comm);
    for (int r = 0; me == root && r < members; r++)
      for (int i = 0; i < count; i++) require(all[r * count + i] == value(r, i), "gather");
    for (int i = 0; me == root && i < count * members; i++) all[i] = value(root, i);
    MPI_Scatter(all, count, MPI_INT, data, count, MPI_INT, root, comm);
    for (int i = 0; i < count; i++) require(data[i] == value(root, me * count + i), "scatter");
    free(data);
    free(all);
  }
}

/* Rank r contributes r + 1 blocks. */
static void uneven(int block) {
  int* counts = numbers(members);
  int* starts = numbers(members);
  int total = 0;
  for (int r = 0; r < members; r++) {
    counts[r] = (r + 1) * block;
    starts[r] = total;
    total += counts[r];
  }
  int* mine = numbers(counts[me]);
  int* all = numbers(total);
  for (int i = 0; i < counts[me]; i++) mine[i] = value(me, i);
  MPI_Allgatherv(mine, counts[me], MPI_INT, all, counts, starts, MPI_INT, comm);
  for (int r = 0; r < members; r++)
    for (int i = 0; i < counts[r]; i++) require(all[starts[r] + i] == value(r, i), "allgatherv");
  MPI_Scatterv(all, counts, starts, MPI_INT, mine, counts[me], MPI_INT, 0, comm);
  for (int i = 0; i < counts[me]; i++) require(mine[i] == value(me, i), "scatterv");
  for (int i = 0; i < total; i++) all[i] = -1;
  MPI_Gatherv(mine, counts[me], MPI_INT, all, counts, starts, MPI_INT, members - 1, comm);
  for (int r = 0; me == members - 1 && r < members; r++)
    for (int i = 0; i < counts[r]; i++) require(all[starts[r] + i] == value(r, i), "gatherv");
  free(counts);
  free(starts);
  free(mine);
  free(all);
}

static void to_all(int count) {
  int* out = numbers(count * members);
  int* in = numbers(count * members);
  for (int i = 0; i < count * members; i++) out[i] = value(me, i);
  MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
  for (int r = 0; r < members; r++)
    for (int i = 0; i < count; i++)
      require(in[r * count + i] == value(r, me * count + i), "alltoall");
  MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm);
  for (int r = 0; r < members; r++)
    for (int i = 0; i < count; i++) require(in[r * count + i] == value(r, i), "allgather");
  int* counts = numbers(members);
  int* starts = numbers(members);
  for (int r = 0; r < members; r++) {
    counts[r] = (r + me) % 2 ? count : 0; /* only pairs of even distance get nothing */
    starts[r] = r * count;
  }
  for (int i = 0; i < count * members; i++) in[i] = -1;
  MPI_Alltoallv(out, counts, starts, MPI_INT, in, counts, starts, MPI_INT, comm);
  for (int r = 0; r < members; r++)
    for (int i = 0; i < count; i++)
      require(in[r * count + i] == (counts[r] ? value(r, me * count + i) : -1), "alltoallv");
  free(out);
  free(in);
  free(counts);
  free(starts);
}

static void reductions(int count) {
  int* mine = numbers(count * members);
  int* result = numbers(count * members);
  for (int i = 0; i < count * members; i++) mine[i] = value(me, i);
  const int ranks_sum = members * (members - 1) / 2 * 7919;
  MPI_Allreduce(mine, result, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < count; i++) require(result[i] == ranks_sum + members * i, "allreduce");
  MPI_Reduce(mine, result, count, MPI_INT, MPI_MAX, 0, comm);
  for (int i = 0; me == 0 && i < count; i++) require(result[i] == value(members - 1, i), "reduce");
  MPI_Reduce_scatter_block(mine, result, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < count; i++)
    require(result[i] == ranks_sum + members * (me * count + i), "reduce_scatter");
  MPI_Scan(mine, result, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < count; i++)
    require(result[i] == me * (me + 1) / 2 * 7919 + (me + 1) * i, "scan");
  MPI_Exscan(mine, result, count, MPI_INT, MPI_SUM, comm);
  for (int i = 0; me > 0 && i < count; i++)
    require(result[i] == me * (me - 1) / 2 * 7919 + me * i, "exscan");
  free(mine);
  free(result);
}

static void non_blocking(int count) {
  MPI_Request requests[3];
  int* mine = numbers(count);
  int* sums = numbers(count);
  int* told = numbers(count);
  for (int i = 0; i < count; i++) {
    mine[i] = value(me, i);
    told[i] = me == 0 ? i : -1;
  }
  MPI_Ibarrier(comm, &requests[0]);
  MPI_Iallreduce(mine, sums, count, MPI_INT, MPI_SUM, comm, &requests[1]);
  MPI_Ibcast(told, count, MPI_INT, 0, comm, &requests[2]);
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  const int ranks_sum = members * (members - 1) / 2 * 7919;
  for (int i = 0; i < count; i++) {
    require(sums[i] == ranks_sum + members * i, "iallreduce");
    require(told[i] == i, "ibcast");
  }
  free(mine);
  free(sums);
  free(told);
}

static void all_of_them(MPI_Comm on) {
  static const int counts[] = {1, 100, 5000, 60000};
  comm = on;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &members);
  for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    MPI_Barrier(comm);
    from_and_to_one(counts[i]);
    uneven(counts[i] / 2 + 1);
    to_all(counts[i]);
    reductions(counts[i]);
    non_blocking(counts[i]);
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  all_of_them(MPI_COMM_WORLD);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  all_of_them(half);
  MPI_Comm_free(&half);
  end("collectives");
}
