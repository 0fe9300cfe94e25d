/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MPI_THREAD_MULTIPLE: threads of each rank exchange messages with the same thread of the
 * neighbours, all at once, on a communicator of its own or on one that they share, told apart by
 * tags.
 */
#include <pthread.h>

#include "mpi_check.h"

enum { threads = 4, turns = 150, largest = 40000 };

struct job {
  int number;
  MPI_Comm comm;
};

static int next, previous;

static void* exchange(void* argument) {
  const struct job* job = argument;
  unsigned char* out = allocate(largest);
  unsigned char* in = allocate(largest);
  for (int turn = 0; turn < turns; turn++) {
    const int size = turn % 10 == 9 ? largest : turn * 7 % 2000;
    const unsigned seed = (unsigned)(job->number * 1000 + turn);
    MPI_Request request;
    MPI_Status status;
    int count;
    fill(out, size, seed + (unsigned)rank);
    MPI_Irecv(in, largest, MPI_BYTE, previous, job->number, job->comm, &request);
    MPI_Send(out, size, MPI_BYTE, next, job->number, job->comm);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    require(count == size && status.MPI_TAG == job->number, "status in a thread");
    require(is_filled(in, size, seed + (unsigned)previous), "contents in a thread");
  }
  free(out);
  free(in);
  return NULL;
}

static void run_threads(int own_communicators) {
  pthread_t running[threads];
  struct job jobs[threads];
  for (int i = 0; i < threads; i++) {
    jobs[i] = (struct job){i + 1, MPI_COMM_WORLD};
    if (own_communicators) MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm);
  }
  for (int i = 0; i < threads; i++)
    require(pthread_create(&running[i], NULL, exchange, &jobs[i]) == 0, "starting a thread");
  for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
  for (int i = 0; i < threads && own_communicators; i++) MPI_Comm_free(&jobs[i].comm);
}

int main(int argc, char** argv) {
  int given;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  require(given == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE is given");
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  run_threads(0);
  run_threads(1);
  end("threads");
}
