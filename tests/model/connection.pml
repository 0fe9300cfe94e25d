// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How connections are made and end: prov/proto/connection/connection_manager.cpp (to, connect, accept, reject, drop, fail),
// connection_events.cpp (handle_request, take_answer, confirm_connected, endpoint_failed, poll_now) and goodbye.cpp. Endpoints that
// each have a message for every other. Events of the core come late, and in any order between connections; endpoints close
// politely and are started anew at the same address, as another instance, which has messages again.
//
// Checked: every message arrives, those too that were sent right before a polite close; at rest each pair has one connection,
// which both ends have as their current one, and nobody waits.
// Each of these breaks one rule, and must be found: BOTH_GO_ON, NEITHER_GOES_ON, DROPPED_STAYS_CURRENT, NO_GOODBYE,
// LAST_WORDS_UNREAD, LATE_REQUEST_FORGOTTEN, MESSAGE_CONFIRMS_NOTHING, OLD_CONNECTION_KEPT, CROSSED_IS_NEWER,
// UP_BEFORE_CONFIRMED.

#ifndef NODES
#define NODES 2
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef most
#define most (NODES * (NODES - 1) * (1 + RESTARTS)) /* connections asked for: what needs more is not looked at */
#endif

mtype = { none, connecting, accepting, connected, failed, accepted, simultaneous };

// By connection: who asked whom, and which instances they were.
byte asker[most], target[most], asking_instance[most], answering_instance[most];
bool request_waits[most]; // FI_CONNREQ
bool late[most];          // connection_manager::deferred_requests_
byte asked_for;
// By its end: 2 * connection for the asker's, and one more for the other's.
mtype state[2 * most] = none;
mtype answer[2 * most] = none; // to the asker: FI_CONNECTED, or a reject
bool confirmed[2 * most];      // to who accepted: the first packet of who asked
bool loses[2 * most];          // used by who accepted, when who asked had gone
bool closed[2 * most];         // FI_SHUTDOWN
bool shut[2 * most];           // connection_manager::ends_
byte remote_instance[2 * most];
bool crossed[2 * most];        // connection::crossed
byte wire[2 * most];  // messages on their way to this end
byte inbox[2 * most]; // with it, and not looked at

byte instance[NODES] = 1;
byte restarts;
// By endpoint and peer.
byte current[NODES * NODES]; // an end + 1; 0: none
byte unsent[NODES * NODES], owed[NODES * NODES];
bool may_ask[NODES * NODES]; // a refused request is not repeated, unless an end of another connection was the reason

#define pair(a, b) ((a) * NODES + (b))
#define other(end) ((end) ^ 1)
#define owner(end) (((end) & 1) -> target[(end) / 2] : asker[(end) / 2])
#define to_peer(end) pair(owner(end), owner(other(end)))
#define from_peer(end) pair(owner(other(end)), owner(end))
#define is_open(end) (state[end] == connecting || state[end] == accepting || state[end] == connected)
#define precedes(a, b) ((a) < (b))

// The core endpoint is closed. A message that was on its way to us fails, and its sender sends it again.
inline drop(end) {
  state[end] = failed;
  if
  :: current[to_peer(end)] == end + 1 -> current[to_peer(end)] = 0
  :: else
  fi;
  unsent[from_peer(end)] = unsent[from_peer(end)] + wire[end];
  wire[end] = 0;
  answer[end] = none;
  confirmed[end] = false;
  closed[end] = false;
  shut[end] = false;
  if
  :: is_open(other(end)) -> closed[other(end)] = true
  :: else
  fi
}

inline accept(number) {
  state[2 * number + 1] = accepting;
  remote_instance[2 * number + 1] = asking_instance[number];
  answering_instance[number] = instance[target[number]];
  if
  :: current[to_peer(2 * number + 1)] == 0 -> current[to_peer(2 * number + 1)] = 2 * number + 2
  :: else
  fi;
  if
  :: state[2 * number] == connecting -> answer[2 * number] = accepted
  :: else -> // who asked has gone
     closed[2 * number + 1] = true;
#ifdef UP_BEFORE_CONFIRMED
     // As the core tells it, whose end is closed later.
     state[2 * number + 1] = connected;
     loses[2 * number + 1] = true
#endif
  fi
}

inline reject(number) {
  if
  :: state[2 * number] == connecting -> answer[2 * number] = simultaneous
  :: else
  fi
}

// A request that may have crossed the one which made the connection.
#ifdef CROSSED_IS_NEWER
#define is_older(end, number) false
#else
#define is_older(end, number) \
  (remote_instance[end] == asking_instance[number] && ((end) & 1) == 0 && !crossed[end])
#endif

inline handle_request(number) {
  c = current[pair(target[number], asker[number])];
  if
  :: c == 0 -> accept(number)
  :: c != 0 && state[c - 1] == connecting ->
     if
#ifdef BOTH_GO_ON
     :: true -> accept(number)
#endif
#ifdef NEITHER_GOES_ON
     :: true -> reject(number)
#endif
#if !defined(BOTH_GO_ON) && !defined(NEITHER_GOES_ON)
     :: precedes(asker[number], target[number]) -> reject(number)
     :: else ->
        drop((c - 1));
#ifdef DROPPED_STAYS_CURRENT
        current[pair(target[number], asker[number])] = c;
#endif
        accept(number)
#endif
     fi
  :: c != 0 && state[c - 1] != connecting && !shut[c - 1] && is_older(c - 1, number) ->
     crossed[c - 1] = true;
     reject(number)
  :: c != 0 && state[c - 1] != connecting && (shut[c - 1] || !is_older(c - 1, number)) ->
#ifdef OLD_CONNECTION_KEPT
     accept(number)
#else
     // No connection that both have ends for a request of the same instance.
     assert(shut[c - 1] || !is_open(other(c - 1)) || remote_instance[c - 1] != asking_instance[number]);
     shut[c - 1] = true;
#ifndef LATE_REQUEST_FORGOTTEN
     late[number] = true
#endif
#endif
  fi;
  c = 0
}

// A core tells of a peer's answer before it tells of what a later instance of that peer asks, and of the requests of one peer in
// their order.
#define own_end(number) (current[pair(target[number], asker[number])] - 1)
#define comes_after_an_answer(number) \
  (current[pair(target[number], asker[number])] != 0 && answer[own_end(number)] == accepted && \
   answering_instance[own_end(number) / 2] != asking_instance[number])

#define is_earlier(one, number) \
  (one < number && (request_waits[one] || late[one]) && asker[one] == asker[number] && target[one] == target[number])
#define is_first(number) \
  (!is_earlier(0, number) && !is_earlier(1, number) && !is_earlier(2, number) && !is_earlier(3, number) && \
   !is_earlier(4, number) && !is_earlier(5, number) && !is_earlier(6, number) && !is_earlier(7, number))

// One that waits for the end of an old connection is the next thing that this end looks at.
#define is_next(one, at, from) (one < most && late[(one) % most] && target[(one) % most] == at && asker[(one) % most] == from)
#define any_next(at, from) \
  (is_next(0, at, from) || is_next(1, at, from) || is_next(2, at, from) || is_next(3, at, from) || \
   is_next(4, at, from) || is_next(5, at, from) || is_next(6, at, from) || is_next(7, at, from))

// What the core tells of the connections asked for.
proctype request(byte number) {
  byte c;
end_of_request:
  do
  :: atomic { request_waits[number] && !comes_after_an_answer(number) && is_first(number) -> request_waits[number] = false; handle_request(number) }
  :: atomic { late[number] && (current[pair(target[number], asker[number])] == 0 || !shut[own_end(number)]) ->
       late[number] = false;
       handle_request(number) }
  od
}

inline take_message(end) {
  inbox[end]--;
  owed[from_peer(end)]--
}

// What the core tells of one end of a connection.
proctype events(byte end) {
end_of_events:
  do
  :: atomic { wire[end] > 0 -> wire[end]--; inbox[end]++ }
  :: atomic { inbox[end] > 0 && state[end] == connected -> take_message(end) }
  :: atomic { inbox[end] > 0 && state[end] == accepting -> // confirm_connected
#ifdef MESSAGE_CONFIRMS_NOTHING
       inbox[end]--
#else
       confirmed[end] = false;
       state[end] = connected;
       take_message(end)
#endif
     }
  :: atomic { answer[end] == accepted -> // take_answer
       answer[end] = none;
       state[end] = connected;
       if
       :: is_open(other(end)) -> confirmed[other(end)] = true
       :: else
       fi;
       remote_instance[end] = answering_instance[end / 2] }
  :: atomic { answer[end] == simultaneous -> drop(end) } // endpoint_failed
  :: atomic { confirmed[end] -> confirmed[end] = false; state[end] = connected }
  :: atomic { closed[end] && answer[end] == none && !confirmed[end] -> closed[end] = false; shut[end] = true }
  :: atomic { shut[end] -> // poll_now: connections_ending, then fail
#ifdef LAST_WORDS_UNREAD
       inbox[end] = 0;
#endif
       do
       :: inbox[end] > 0 -> take_message(end)
       :: else -> break
       od;
       may_ask[to_peer(end)] = true;
       may_ask[from_peer(end)] = true;
       drop(end) }
  od
}

// get_connection(), and the message when there is a connection. A send to a peer that has closed fails, and is tried again.
proctype application(byte me; byte peer) {
  byte c;
end_of_application:
  do
  :: atomic { unsent[pair(me, peer)] > 0 && current[pair(me, peer)] != 0 && state[current[pair(me, peer)] - 1] == connected &&
              is_open(other(current[pair(me, peer)] - 1)) ->
       unsent[pair(me, peer)]--;
       wire[other(current[pair(me, peer)] - 1)]++ }
  :: atomic { unsent[pair(me, peer)] > 0 && current[pair(me, peer)] != 0 && loses[current[pair(me, peer)] - 1] ->
       unsent[pair(me, peer)]-- }
  :: atomic { unsent[pair(me, peer)] > 0 && current[pair(me, peer)] == 0 && may_ask[pair(me, peer)] &&
              asked_for < most && !any_next(me, peer) ->
       may_ask[pair(me, peer)] = false;
       c = asked_for;
       asked_for++;
       asker[c] = me;
       target[c] = peer;
       asking_instance[c] = instance[me];
       state[2 * c] = connecting;
       current[pair(me, peer)] = 2 * c + 1;
       request_waits[c] = true;
       c = 0 }
  od
}

#define is_its(end, node) (is_open(end) && owner(end) == node)

// Closes once it has sent all, and the core of each peer has it (must_linger, has_left, say_goodbye).
proctype restarting(byte me) {
  byte i;
  bool lingers;
end_of_restarting:
  do
  :: atomic { restarts < RESTARTS ->
       lingers = false;
       for (i : 0 .. NODES - 1) {
         if
         :: i != me && unsent[pair(me, i)] > 0 -> lingers = true
         :: else
         fi
       }
#ifndef NO_GOODBYE
       for (i : 0 .. 2 * most - 1) {
         if
         :: is_its(i, me) && wire[other(i)] > 0 -> lingers = true
         :: else
         fi
       }
#endif
       if
       :: lingers // looks again when something has changed
       :: else ->
          restarts++;
          for (i : 0 .. 2 * most - 1) {
            if
            :: is_its(i, me) ->
               wire[other(i)] = 0; // a reset drops what is under way
               owed[from_peer(i)] = owed[from_peer(i)] - inbox[i]; // had arrived, and nobody wants it now
               inbox[i] = 0;
               drop(i)
            :: else
            fi
          }
          // A request that was given up does not outlive the listener that it waited at.
          for (i : 0 .. most - 1) {
            if
            :: target[i] == me && state[2 * i] != connecting -> request_waits[i] = false; late[i] = false
            :: else
            fi
          }
          instance[me]++;
          for (i : 0 .. NODES - 1) {
            if
            :: i != me ->
               unsent[pair(me, i)]++;
               owed[pair(me, i)]++;
               may_ask[pair(me, i)] = true;
               may_ask[pair(i, me)] = true
            :: else
            fi
          }
       fi;
       i = 0;
       lingers = false }
  od
}

proctype rest() {
  byte i;
end_of_rest:
  timeout;
end_beyond:
  asked_for < most;
  d_step {
    for (i : 0 .. NODES * NODES - 1) {
      assert(unsent[i] == 0);
      assert(owed[i] == 0)
    }
    for (i : 0 .. 2 * most - 1) {
      assert(state[i] != connecting && state[i] != accepting);
      assert(state[i] != connected || (state[other(i)] == connected && current[to_peer(i)] == i + 1))
    }
  }
}

init {
  byte i, j;
  atomic {
    for (i : 0 .. NODES - 1) {
      for (j : 0 .. NODES - 1) {
        if
        :: i != j ->
           unsent[pair(i, j)] = 1;
           owed[pair(i, j)] = 1;
           may_ask[pair(i, j)] = true;
           run application(i, j)
        :: else
        fi
      }
      if
      :: RESTARTS > 0 -> run restarting(i)
      :: else
      fi
    }
    for (i : 0 .. most - 1) {
      run request(i);
      run events(2 * i);
      run events(2 * i + 1)
    }
    run rest()
  }
}
