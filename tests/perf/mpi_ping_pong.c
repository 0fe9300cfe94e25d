/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Half a round trip between two ranks.
 *   mpirun -n 2 mpi_ping_pong BYTES ROUNDS      prints the mean in microseconds */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void exchange(char* buffer, int bytes, int rank, int rounds) {
  for (int i = 0; i < rounds; i++) {
    if (rank == 0) MPI_Send(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(buffer, bytes, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 3 || atoi(argv[2]) < 10) MPI_Abort(MPI_COMM_WORLD, 2);
  const int bytes = atoi(argv[1]), rounds = atoi(argv[2]);
  char* buffer = calloc(1, (size_t)bytes + 1);
  if (!buffer) MPI_Abort(MPI_COMM_WORLD, 1);

  exchange(buffer, bytes, rank, rounds / 10);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  exchange(buffer, bytes, rank, rounds);
  if (rank == 0) printf("%.3f\n", (MPI_Wtime() - start) / rounds / 2 * 1e6);
  free(buffer);
  MPI_Finalize();
  return 0;
}
