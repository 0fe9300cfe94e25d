/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an MPI program asks of a provider: a ring, a verified ping-pong from 1 B to 4 MiB, wildcard
 * receives with probe, barrier and allreduce. Any number of ranks from 2.
 */
#include "mpi_check.h"

enum { largest = 4 << 20, messages_per_rank = 50 };

static void ring(void) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int lap = 0; lap < 20; lap++) {
    int token = lap;
    if (rank == 0) MPI_Send(&token, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    require(token == lap + (rank == 0 ? ranks - 1 : rank - 1), "ring token");
    token++;
    if (rank != 0) MPI_Send(&token, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
  }
}

/* Ranks 0 and 1, 2 and 3, ...; an odd one out watches. */
static void ping_pong(unsigned char* buffer) {
  const int peer = rank ^ 1;
  if (peer >= ranks) return;
  for (int size = 1; size <= largest; size *= 2) {
    for (int turn = 0; turn < 4; turn++) {
      if ((turn + rank) % 2 == 0) {
        fill(buffer, size, turn + size);
        MPI_Send(buffer, size, MPI_BYTE, peer, size, MPI_COMM_WORLD);
      } else {
        MPI_Status status;
        int count;
        MPI_Recv(buffer, largest, MPI_BYTE, peer, size, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        require(count == size, "length of a ping-pong message");
        require(is_filled(buffer, size, turn + size), "bytes of a ping-pong message");
      }
    }
  }
}

static void wildcards(unsigned char* buffer) {
  if (rank != 0) {
    for (int i = 0; i < messages_per_rank; i++) {
      const int size = 1 + i * 997 * rank;
      fill(buffer, size, i + rank);
      MPI_Send(buffer, size, MPI_BYTE, 0, 100 + i, MPI_COMM_WORLD);
    }
    return;
  }
  int* seen = calloc((size_t)ranks, sizeof *seen);
  require(seen != NULL, "memory");
  for (int n = 0; n < messages_per_rank * (ranks - 1); n++) {
    MPI_Status status;
    int size;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &size);
    const int source = status.MPI_SOURCE, i = status.MPI_TAG - 100;
    require(i == seen[source]++, "order of one source's messages");
    require(size == 1 + i * 997 * source, "probed length");
    MPI_Recv(buffer, size, MPI_BYTE, source, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    require(is_filled(buffer, size, i + source), "bytes of a probed message");
  }
  free(seen);
}

static void collectives(void) {
  for (int i = 0; i < 50; i++) {
    long mine[3] = {rank + i, 1, -rank}, sum[3];
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(mine, sum, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    const long all = (long)ranks * (ranks - 1) / 2;
    require(sum[0] == all + (long)ranks * i && sum[1] == ranks && sum[2] == -all, "allreduce");
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  require(ranks >= 2, "at least two ranks are needed");
  unsigned char* buffer = allocate(largest);
  ring();
  ping_pong(buffer);
  MPI_Barrier(MPI_COMM_WORLD);
  wildcards(buffer);
  collectives();
  free(buffer);
  end("traffic");
}
