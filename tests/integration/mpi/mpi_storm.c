/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All ranks send to all at once, in random order, with random sizes and tags; receives name any
 * source and any tag, only a source, only a tag, or both. A message says who sent it and how many
 * that one had sent before it to the same rank with the same tag: order is kept within that.
 */
#include <string.h>

#include "mpi_check.h"

enum { per_pair = 200, tags = 4, in_flight = 16, largest = 70000 };

struct head {
  int from, tag, sequence, size;
};

static unsigned state;
static unsigned draw(unsigned limit) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % limit;
}

static int draw_size(void) {
  static const int near[] = {sizeof(struct head), 1000, 1024, 16384, 16400, largest};
  return draw(4) ? (int)sizeof(struct head) + (int)draw(200) : near[draw(6)];
}

static void check_message(const unsigned char* bytes, const MPI_Status* status,
                          int (*expected)[tags]) {
  struct head head;
  int size;
  MPI_Get_count(status, MPI_BYTE, &size);
  memcpy(&head, bytes, sizeof head);
  require(size == head.size && head.from == status->MPI_SOURCE && head.tag == status->MPI_TAG,
          "status of a stormy message");
  const int next = expected[head.from][head.tag]++;
  if (head.sequence != next)
    fprintf(stderr, "rank %d: message %d of rank %d with tag %d, %d bytes, came instead of %d\n",
            rank, head.sequence, head.from, head.tag, size, next);
  require(head.sequence == next, "order of one sender's messages with one tag");
  require(is_filled(bytes + sizeof head, size - (int)sizeof head, (unsigned)head.sequence),
          "contents in a storm");
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  state = 12345u + (unsigned)rank;
  const int total = per_pair * ranks;
  int sent = 0, received = 0;
  int(*next_out)[tags] = calloc((size_t)ranks, sizeof *next_out);
  int(*next_in)[tags] = calloc((size_t)ranks, sizeof *next_in);
  int* left = malloc((size_t)ranks * sizeof *left);
  require(next_out && next_in && left, "memory");
  for (int i = 0; i < ranks; i++) left[i] = per_pair;

  unsigned char* out[in_flight];
  MPI_Request sends[in_flight];
  for (int i = 0; i < in_flight; i++) {
    out[i] = allocate(largest);
    sends[i] = MPI_REQUEST_NULL;
  }
  unsigned char* in = allocate(largest);

  while (sent < total || received < total) {
    int slot, flag;
    MPI_Status status;
    if (sent < total) {
      MPI_Testany(in_flight, sends, &slot, &flag, MPI_STATUS_IGNORE);
      for (slot = 0; slot < in_flight && sends[slot] != MPI_REQUEST_NULL; slot++) continue;
      if (slot < in_flight) {
        int to = (int)draw((unsigned)ranks);
        while (left[to] == 0) to = (to + 1) % ranks;
        const struct head head = {rank, (int)draw(tags), 0, draw_size()};
        struct head full = head;
        full.sequence = next_out[to][head.tag]++;
        memcpy(out[slot], &full, sizeof full);
        fill(out[slot] + sizeof full, full.size - (int)sizeof full, (unsigned)full.sequence);
        MPI_Isend(out[slot], full.size, MPI_BYTE, to, full.tag, MPI_COMM_WORLD, &sends[slot]);
        left[to]--;
        sent++;
      }
    }
    /* Which of the four kinds of receive: what the probe shows can be named in part. */
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    if (!flag) continue;
    const int source = draw(2) ? MPI_ANY_SOURCE : status.MPI_SOURCE;
    const int tag = draw(2) ? MPI_ANY_TAG : status.MPI_TAG;
    MPI_Recv(in, largest, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
    check_message(in, &status, next_in);
    received++;
  }
  MPI_Waitall(in_flight, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < in_flight; i++) free(out[i]);
  free(in);
  free(left);
  free(next_in);
  free(next_out);
  end("a storm");
}
