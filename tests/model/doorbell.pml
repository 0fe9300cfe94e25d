// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sleep and wake of two processes that share memory: prov/ipc/byte_ring.cpp (reserve, commit, front, pop, sleep) and
// prov/proto/channel/shm_transport.cpp (add, commit, ring_doorbell, ring_doorbells). One writer and one reader of one ring, on processors
// that keep stores back: one that is not sequentially consistent reaches memory any time later, also after later loads.
//
// Checked: every packet is read, whoever sleeps when; nothing unread is written over; nobody waits for ever.
// Each of these breaks one rule, and must be found: RELAXED_COMMIT, RELAXED_SLEEP, SLEEP_WITHOUT_A_LOOK, DOORBELL_RUNG_ONCE,
// NO_FIRST_DOORBELL, TAKEN_TOLD_LATE, ROOM_TAKEN_FOR_GRANTED.

#ifndef PACKETS
#define PACKETS 4
#endif
#define capacity 8
#define largest_packet 4 /* half of the ring, as ring_writer::reserve has it */

#ifdef TAKEN_TOLD_LATE
#define told_each (capacity - 1)
#else
#define told_each (capacity / 4)
#endif

// ring_control in memory, and what the two processors keep back of it.
byte written, taken;
bit sleeps;
byte written_kept, taken_kept;
bit sleeps_kept;
bool written_waits, taken_waits, sleeps_waits;

chan packets = [PACKETS] of { byte }; // the ring's contents: lengths
byte read_until;                      // the reader's place, which no writer sees
bit answered;                         // link::take has answered, by the socket
chan core = [1] of { bit };           // a packet on the core connection wakes who sleeps

active proctype store_buffers() {
end:
  do
  :: d_step { written_waits -> written = written_kept; written_waits = false }
  :: d_step { taken_waits -> taken = taken_kept; taken_waits = false }
  :: d_step { sleeps_waits -> sleeps = sleeps_kept; sleeps_waits = false }
  od
}

// send_header_by_core, which may find no room (-FI_EAGAIN) for any reason.
inline ring_doorbell() {
  if
  :: core ! 1
  :: doorbell_due = true
  fi
}

active proctype writer() {
  byte at, taken_, length, sent;
  bool doorbell_due, must_ring;
  answered = 1;
#ifndef NO_FIRST_DOORBELL
  ring_doorbell();
#endif
  do
  :: sent < PACKETS ->
     select(length : 1 .. largest_packet);
     // reserve. Without room: -FI_EAGAIN, and progress.
     do
#ifdef ROOM_TAKEN_FOR_GRANTED
     :: break
#endif
     :: at + length - taken_ <= capacity -> break
     :: at + length - taken_ > capacity && taken != taken_ -> taken_ = taken
     :: at + length - taken_ > capacity && doorbell_due && nfull(core) -> core ! 1; doorbell_due = false
     od;
     assert(at + length - read_until <= capacity);
     // commit
     at = at + length;
     packets ! length;
#ifdef RELAXED_COMMIT
     d_step { written_kept = at; written_waits = true };
#else
     written = at;
#endif
     must_ring = false;
     if
     :: sleeps == 0
     :: else ->
        // exchange: what was kept back is in memory before it.
        d_step {
          must_ring = sleeps;
          sleeps = 0;
          if
          :: written_waits -> written = written_kept; written_waits = false
          :: else
          fi
        }
     fi;
     if
     :: must_ring -> ring_doorbell()
     :: else
     fi;
     sent++
  :: doorbell_due && nfull(core) -> // ring_doorbells
     core ! 1;
     doorbell_due = false
  :: sent == PACKETS && !doorbell_due -> break
#ifdef DOORBELL_RUNG_ONCE
  :: doorbell_due -> doorbell_due = false
#endif
  od
}

active proctype reader() {
  byte at, told_, written_, length, got;
  // settle_shm at each look, then poll(2).
  do
  :: answered -> break
  :: else -> core ? _
  od;
  do
  :: got < PACKETS ->
     // handle_completions
     do
     :: core ? _
     :: empty(core) -> break
     od;
     // poll_shm: front, pop
     do
     :: written_ != at ->
        packets ? length;
        at = at + length;
        read_until = at;
        got++;
        if
        :: at - told_ < told_each
        :: else ->
           told_ = at;
           d_step { taken_kept = told_; taken_waits = true }
        fi
     :: written_ == at ->
        written_ = written;
        if
        :: written_ == at -> break
        :: else
        fi
     od;
     // shm_may_sleep: sleep
#ifdef RELAXED_SLEEP
     atomic { sleeps_kept = 1; sleeps_waits = true };
#else
     atomic {
       if
       :: taken_waits -> taken = taken_kept; taken_waits = false
       :: else
       fi;
       sleeps_waits = false;
       sleeps = 1
     };
#endif
#ifndef SLEEP_WITHOUT_A_LOOK
     written_ = written;
#endif
     if
     :: written_ != at -> d_step { sleeps_kept = 0; sleeps_waits = true }
     :: written_ == at && got < PACKETS -> core ? _ // poll(2)
     :: written_ == at && got == PACKETS
     fi
  :: got == PACKETS -> break
  od;
  // What is left on the core is read some time.
end_of_reader:
  do
  :: core ? _
  od
}
