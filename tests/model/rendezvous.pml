// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Long messages that the sink asks for: prov/proto/transfer/rendezvous_sink.cpp (start), transfer_completion.cpp (try_retire), slot_granter.cpp (hand_out,
// grant_more, reuse, take_back), granted_slots.hpp, data_mover.cpp (progress, chunk_loaded, send_chunk) and transfer_packets.cpp. Messages go through
// staging slots of the sink, of which there are fewer than they want, and a last one goes to final memory. Copies of devices end
// in any order; a device may be lost at either end.
//
// Checked: a message has all its bytes when either end is told so; nobody writes to a slot that is another's, or is being emptied;
// every operation ends at both ends, and all slots are free then.
// Each of these breaks one rule, and must be found: SLOTS_NOT_KEPT, SLOT_FREED_BEFORE_COPIED, SILENT_SOURCE, SLOTS_HANDED_OUT_ONCE,
// CHUNK_OVERTAKES_DATA, DONE_OVERTAKES_DATA, DONE_BEFORE_COPIED.

#ifndef STAGED
#define STAGED 2 /* messages through slots */
#endif
#ifndef CHUNKS
#define CHUNKS 2 /* of each message */
#endif
#define messages (STAGED + 1)
#define slots 2
#define direct (messages - 1) /* the one to final memory */
#define all ((1 << CHUNKS) - 1)

mtype = { rts, cts, write, chunk, slot_credit, fin };

// The core connection, each way, and what of it the NIC has brought to memory: kind, message, slot, number of the chunk or status.
chan wire = [12] of { mtype, byte, byte, byte };
chan to_sink = [12] of { mtype, byte, byte, byte };
chan to_source = [12] of { mtype, byte, byte, byte };

byte content[slots];       // message * CHUNKS + chunk + 1
byte owner[slots] = 255;   // the message that it is given to
bool copying[slots];
byte landed;               // chunks of the direct message in final memory
byte copied[messages];     // chunks in the sink's memory, each a bit
bool source_ended[messages], sink_ended[messages];
byte losses;               // of a device, in all

#define contents(m, c) ((m) * CHUNKS + (c) + 1)

active proctype nic() {
  mtype what;
  byte m, s, c;
end_of_nic:
  do
  :: atomic { wire ? what, m, s, c ->
       if
       :: what == write && m == direct -> landed = landed | (1 << c)
       :: what == write && m != direct ->
          assert(owner[s] == m);
          assert(!copying[s]);
          content[s] = contents(m, c)
       :: else -> to_sink ! what, m, s, c
       fi;
       what = 0; m = 0; s = 0; c = 0 }
  od
}

inline send_done_to_sink(m, status) {
#ifdef DONE_OVERTAKES_DATA
  to_sink ! fin, m, 0, status
#else
  wire ! fin, m, 0, status
#endif
}

// settle: nothing handed out is under way, as the core takes each write at once.
inline end_source(m, status) {
#ifndef SILENT_SOURCE
  if
  :: status != 0 && is_granted[m] -> send_done_to_sink(m, status)
  :: else
  fi;
#endif
  if
  :: status == 0 -> assert(copied[m] == all)
  :: else
  fi;
  source_ended[m] = true
}

#define may_issue(m) \
  (m < STAGED && !source_ended[m] && !has_failed[m] && issued[m] < CHUNKS && free_slots[m] != 0)

// issue_staged, chunk_loaded, send_chunk
inline issue() {
  s = 0;
  do
  :: (free_slots[m] & (1 << s)) == 0 -> s++
  :: else -> break
  od;
  free_slots[m] = free_slots[m] & ~(1 << s);
#ifdef CHUNK_OVERTAKES_DATA
  to_sink ! chunk, m, s, issued[m];
  wire ! write, m, s, issued[m];
#else
  wire ! write, m, s, issued[m];
  wire ! chunk, m, s, issued[m];
#endif
  issued[m]++;
  m = 0;
  s = 0
}

active proctype source() {
  mtype what;
  byte m, s, c;
  byte free_slots[messages]; // a bit each
  byte issued[messages];
  bool is_granted[messages], has_failed[messages];
  atomic {
    for (m : 0 .. messages - 1) {
      wire ! rts, m, 0, 0
    }
    m = 0
  };
end_of_source:
  do
  :: atomic { to_source ? what, m, s, c ->
       if
       :: source_ended[m] // nobody knows the operation
       :: !source_ended[m] && what == cts ->
          is_granted[m] = true;
          free_slots[m] = free_slots[m] | (1 << s);
          if
          :: has_failed[m] -> end_source(m, 1) // lost while the cts was on its way
          :: else
          fi
       :: !source_ended[m] && what == slot_credit -> free_slots[m] = free_slots[m] | (1 << s)
       :: !source_ended[m] && what == fin -> end_source(m, c)
       fi;
       what = 0; m = 0; s = 0; c = 0 }
  :: atomic { may_issue(0) -> m = 0; issue() }
  :: atomic { may_issue(1) -> m = 1; issue() }
  :: atomic { is_granted[direct] && !source_ended[direct] && !has_failed[direct] && issued[direct] < CHUNKS ->
       wire ! write, direct, 0, issued[direct];
       issued[direct]++;
       if
       :: issued[direct] == CHUNKS -> send_done_to_sink(direct, 0) // behind the data
       :: else
       fi }
  :: atomic { losses == 0 -> // end_lost
       losses++;
       for (m : 0 .. messages - 1) {
         if
         :: source_ended[m] || has_failed[m] || issued[m] == CHUNKS
         :: else ->
            has_failed[m] = true;
            if
            :: is_granted[m] -> end_source(m, 1)
            :: else
            fi
         fi
       }
       m = 0 }
  od
}

#define wants_another(m) (at_source[m] < unseen[m])

inline give(m, s) {
  owner[s] = m;
  at_source[m]++;
  held[m]++;
  to_source ! cts, m, s, 0
}

// The oldest that wants some comes first.
inline hand_out_slots() {
  for (i : 0 .. STAGED - 1) {
    for (j : 0 .. slots - 1) {
      if
      :: is_offered[i] && !sink_ended[i] && !slots_on_loan[i] && status_of[i] == 0 && owner[j] == 255 && wants_another(i) ->
         give(i, j)
      :: else
      fi
    }
  }
  i = 0;
  j = 0
}

inline hand_out_again() {
#ifdef SLOTS_HANDED_OUT_ONCE
  skip
#else
  hand_out_slots()
#endif
}

inline take_slots_back(m) {
  for (j : 0 .. slots - 1) {
    if
    :: owner[j] == m -> owner[j] = 255
    :: else
    fi
  }
  held[m] = 0;
  at_source[m] = 0
}

// finish and settle; what is still being copied comes back here.
inline settle(m) {
  if
  :: in_flight[m] != 0
  :: in_flight[m] == 0 && slots_on_loan[m] && peer_ended[m] -> // free_transfer
     take_slots_back(m);
     slots_on_loan[m] = false;
     sink_ended[m] = true;
     hand_out_again()
  :: in_flight[m] == 0 && slots_on_loan[m] && !peer_ended[m]
  :: in_flight[m] == 0 && !slots_on_loan[m] ->
     to_source ! fin, m, 0, status_of[m];
     if
     :: status_of[m] == 0 -> assert(copied[m] == all)
     :: else
     fi;
     if
#ifndef SLOTS_NOT_KEPT
     :: status_of[m] != 0 && held[m] != 0 && !peer_ended[m] -> slots_on_loan[m] = true // keep_for_peer
#endif
     :: else ->
        take_slots_back(m);
        sink_ended[m] = true;
        hand_out_again()
     fi
  fi
}

inline reuse_slot(m, s) {
  if
  :: wants_another(m) -> at_source[m]++; to_source ! slot_credit, m, s, 0
  :: else ->
     owner[s] = 255;
     held[m]--;
     hand_out_again()
  fi
}

// copied: a device is through with a slot.
inline copied_from() {
  m = owner[s];
  copying[s] = false;
  in_flight[m]--;
  if
  :: losses == 0 -> losses++; status_of[m] = 1
  :: copied[m] = copied[m] | (1 << (content[s] - 1 - m * CHUNKS))
  fi;
  if
  :: status_of[m] != 0 || copied[m] == all -> settle(m)
  :: else ->
#ifndef SLOT_FREED_BEFORE_COPIED
     reuse_slot(m, s)
#else
     skip
#endif
  fi;
  s = 0;
  m = 0
}

active proctype sink() {
  mtype what;
  byte m, s, c, i, j;
  byte unseen[messages] = CHUNKS;
  byte at_source[messages], held[messages], in_flight[messages], status_of[messages];
  bool is_offered[messages], slots_on_loan[messages], peer_ended[messages];
end_of_sink:
  do
  :: atomic { to_sink ? what, m, s, c ->
       if
       :: sink_ended[m]
       :: !sink_ended[m] && what == rts && m == direct -> to_source ! cts, m, 0, 0
       :: !sink_ended[m] && what == rts && m != direct -> is_offered[m] = true; hand_out_slots()
       :: !sink_ended[m] && what == chunk && (status_of[m] != 0 || slots_on_loan[m]) // its end is near: nobody wants it
       :: !sink_ended[m] && what == chunk && status_of[m] == 0 && !slots_on_loan[m] -> // fill_from_slot
          at_source[m]--;
          unseen[m]--;
          in_flight[m]++;
          copying[s] = true;
          assert(content[s] == contents(m, c));
#ifdef SLOT_FREED_BEFORE_COPIED
          reuse_slot(m, s);
#endif
#ifdef DONE_BEFORE_COPIED
          if
          :: unseen[m] == 0 -> to_source ! fin, m, 0, 0
          :: else
          fi
#endif
       :: !sink_ended[m] && what == fin && m == direct ->
          if
          :: c == 0 -> assert(landed == all); copied[m] = all
          :: else -> status_of[m] = c
          fi;
          settle(m)
       :: !sink_ended[m] && what == fin && m != direct ->
          peer_ended[m] = true;
          if
          :: status_of[m] == 0 -> status_of[m] = c
          :: else
          fi;
          settle(m)
       fi;
       what = 0; m = 0; s = 0; c = 0 }
  :: atomic { copying[0] -> s = 0; copied_from() }
  :: atomic { copying[1] -> s = 1; copied_from() }
  od
}

active proctype rest() {
  byte m;
end_of_rest:
  timeout;
  for (m : 0 .. messages - 1) {
    assert(source_ended[m] && sink_ended[m])
  }
  for (m : 0 .. slots - 1) {
    assert(owner[m] == 255)
  }
}
