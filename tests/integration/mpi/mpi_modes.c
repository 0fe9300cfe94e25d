/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every mode of sending, blocking, non-blocking and persistent, at sizes around the provider's
 * limits; combined send-receive; probes of all kinds; cancelled receives. Ranks talk to their
 * neighbours in a ring.
 */
#include <string.h>

#include "mpi_check.h"

enum { largest = 1 << 20 };
static const int sizes[] = {0, 1, 63, 1024, 1025, 16383, 16384, 16385, 65536, largest};
enum { size_count = sizeof sizes / sizeof sizes[0] };

static int next, previous;
static unsigned char *out, *in;

static void check(const MPI_Status* status, int size, int tag, unsigned seed, const char* what) {
  int count;
  MPI_Get_count(status, MPI_BYTE, &count);
  require(count == size && status->MPI_SOURCE == previous && status->MPI_TAG == tag, what);
  require(is_filled(in, size, seed), what);
}

/* The receive is posted first, as a ready send wants it. */
static void blocking(int (*send)(const void*, int, MPI_Datatype, int, int, MPI_Comm), int size,
                     int tag, const char* what) {
  MPI_Request request;
  MPI_Status status;
  fill(out, size, (unsigned)(rank + tag));
  MPI_Irecv(in, largest, MPI_BYTE, previous, tag, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  send(out, size, MPI_BYTE, next, tag, MPI_COMM_WORLD);
  MPI_Wait(&request, &status);
  check(&status, size, tag, (unsigned)(previous + tag), what);
}

static void non_blocking(int (*send)(const void*, int, MPI_Datatype, int, int, MPI_Comm,
                                     MPI_Request*),
                         int size, int tag, const char* what) {
  MPI_Request requests[2];
  MPI_Status statuses[2];
  fill(out, size, (unsigned)(rank + tag));
  MPI_Irecv(in, largest, MPI_BYTE, previous, tag, MPI_COMM_WORLD, &requests[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  send(out, size, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, statuses);
  check(&statuses[0], size, tag, (unsigned)(previous + tag), what);
}

static void persistent(int (*init)(const void*, int, MPI_Datatype, int, int, MPI_Comm,
                                   MPI_Request*),
                       int size, int tag, const char* what) {
  MPI_Request requests[2];
  MPI_Recv_init(in, largest, MPI_BYTE, previous, tag, MPI_COMM_WORLD, &requests[0]);
  init(out, size, MPI_BYTE, next, tag, MPI_COMM_WORLD, &requests[1]);
  for (int turn = 0; turn < 3; turn++) {
    MPI_Status statuses[2];
    fill(out, size, (unsigned)(rank + tag + turn));
    MPI_Start(&requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, statuses);
    check(&statuses[0], size, tag, (unsigned)(previous + tag + turn), what);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void combined(int size, int tag) {
  MPI_Status status;
  fill(out, size, (unsigned)rank);
  MPI_Sendrecv(out, size, MPI_BYTE, next, tag, in, largest, MPI_BYTE, previous, tag, MPI_COMM_WORLD,
               &status);
  check(&status, size, tag, (unsigned)previous, "sendrecv");
  memcpy(in, out, (size_t)size);
  MPI_Sendrecv_replace(in, size, MPI_BYTE, next, tag, previous, tag, MPI_COMM_WORLD, &status);
  check(&status, size, tag, (unsigned)previous, "sendrecv_replace");
}

/* Each way to look at a message before it is received. */
static void probes(int size, int tag) {
  MPI_Request request;
  MPI_Status status;
  MPI_Message message;
  int flag = 0;
  for (int way = 0; way < 4; way++) {
    fill(out, size, (unsigned)(rank + way));
    MPI_Isend(out, size, MPI_BYTE, next, tag, MPI_COMM_WORLD, &request);
    switch (way) {
      case 0:
        MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
        MPI_Recv(in, largest, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, &status);
        break;
      case 1:
        for (flag = 0; !flag;) MPI_Iprobe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        MPI_Recv(in, largest, MPI_BYTE, previous, status.MPI_TAG, MPI_COMM_WORLD, &status);
        break;
      case 2:
        MPI_Mprobe(previous, tag, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(in, largest, MPI_BYTE, &message, &status);
        break;
      default: {
        MPI_Request matched;
        for (flag = 0; !flag;)
          MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
        MPI_Imrecv(in, largest, MPI_BYTE, &message, &matched);
        MPI_Wait(&matched, &status);
      }
    }
    check(&status, size, tag, (unsigned)(previous + way), "probed message");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void cancel_receives(void) {
  MPI_Request requests[8];
  for (int i = 0; i < 8; i++)
    MPI_Irecv(in, largest, MPI_BYTE, previous, 900 + i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < 8; i++) {
    MPI_Status status;
    int cancelled = 0;
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], &status);
    MPI_Test_cancelled(&status, &cancelled);
    require(cancelled, "a receive that nothing was sent to is cancelled");
  }
  /* A message with such a tag goes to the receive that comes after. */
  blocking(MPI_Send, 1000, 903, "after a cancel");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  out = allocate(largest);
  in = allocate(largest);
  const int room = largest + MPI_BSEND_OVERHEAD;
  unsigned char* attached = allocate((size_t)room);
  MPI_Buffer_attach(attached, room);
  for (int i = 0; i < size_count; i++) {
    blocking(MPI_Send, sizes[i], 1, "send");
    blocking(MPI_Ssend, sizes[i], 2, "ssend");
    blocking(MPI_Rsend, sizes[i], 3, "rsend");
    blocking(MPI_Bsend, sizes[i], 4, "bsend");
    non_blocking(MPI_Isend, sizes[i], 5, "isend");
    non_blocking(MPI_Issend, sizes[i], 6, "issend");
    non_blocking(MPI_Irsend, sizes[i], 7, "irsend");
    non_blocking(MPI_Ibsend, sizes[i], 8, "ibsend");
    persistent(MPI_Send_init, sizes[i], 9, "persistent send");
    persistent(MPI_Ssend_init, sizes[i], 10, "persistent ssend");
    persistent(MPI_Rsend_init, sizes[i], 11, "persistent rsend");
    combined(sizes[i], 12);
    probes(sizes[i], 13);
  }
  cancel_receives();
  unsigned char* detached;
  int detached_size;
  MPI_Buffer_detach(&detached, &detached_size);
  require(detached == attached && detached_size == room, "the attached buffer comes back");
  free(attached);
  free(out);
  free(in);
  end("modes");
}
