// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Flow control of one connection: prov/proto/connection/credits.hpp, and who uses it (connection::fill_header, core_transport::send,
// try_control, return_credits and consumed_data in packet_channel, packet_arrived in packet_dispatcher). Two endpoints send data to each other; every
// second message is answered by a control message when the application has taken it, which it does as late as it can.
//
// Checked: no credit is lost or made (what a peer was granted is what it may send, what is on the way, and what is kept); no end
// has more on its hands than it granted; everything is sent, answered and taken in the end, whatever the core refuses.
// Each of these breaks one rule, and must be found: CREDITS_OF_A_REFUSED_MESSAGE, RETURN_NOT_REPEATED, RETURN_WHEN_HALF_IS_FREE,
// CONSUMED_TWICE, CREDIT_TAKES_A_CREDIT, WINDOW_SHRINKS_TO_NOTHING.

#ifndef MESSAGES
#define MESSAGES 3 /* data, from each end */
#endif
#ifndef data_window
#define data_window 2
#endif
#define control_window 1
#define most_refusals 1 /* of the core, to each end */

mtype = { eager, fin, credit };

typedef credit_window {
  short available; // what we may send
  short granted;   // what the peer may send, as long as it is not told otherwise
  short held;      // the peer's, here and not consumed
  short returnable;
}
typedef endpoint {
  credit_window data;
  credit_window control;
  byte queued;        // control messages that wait for credits or room: control_queue
  bool control_waits; // return_credits is to be tried again
}
endpoint ends[2];

// What is on its way: kind, data_credits, control_credits.
chan to[2] = [2 * (data_window + control_window) + 4] of { mtype, byte, byte };
// Of it, for the account.
byte data_under_way[2], control_under_way[2], data_returning[2], control_returning[2];
byte taken[2], answered[2];
bool started;

#define me ends[_pid]
#define peer (1 - _pid)
#define can_send(w) (w.available > 0)
#define held_in_due(w) (w.returnable + w.held)
#ifdef RETURN_WHEN_HALF_IS_FREE
#define return_is_due(w) (w.returnable != 0 && 2 * w.returnable >= w.granted + 1)
#else
#define return_is_due(w) (w.returnable != 0 && 2 * held_in_due(w) >= w.granted)
#endif

// The peer of an end was granted what it may send, what is under way or held, and what is on its way back or waits for it.
#define adds_up(end, class) \
  (ends[end].class.available + class##_under_way[1 - end] + ends[1 - end].class.held + ends[1 - end].class.returnable + \
       class##_returning[end] == ends[1 - end].class.granted)

inline check() {
  assert(adds_up(0, data) && adds_up(1, data) && adds_up(0, control) && adds_up(1, control));
  assert(me.data.held + data_under_way[_pid] <= data_window);
  assert(me.control.held + control_under_way[_pid] <= control_window)
}

inline start(end) {
  ends[end].data.available = data_window;
  ends[end].data.granted = data_window;
  ends[end].control.available = control_window;
  ends[end].control.granted = control_window
}

// fill_header, and the core's answer: went.
inline post(what) {
  if
  :: refusals < most_refusals ->
     refusals++;
     went = false;
#ifdef CREDITS_OF_A_REFUSED_MESSAGE
     me.data.returnable = 0;
     me.control.returnable = 0
#endif
  :: nfull(to[peer]) ->
     went = true;
     data_returning[peer] = data_returning[peer] + me.data.returnable;
     control_returning[peer] = control_returning[peer] + me.control.returnable;
     to[peer] ! what, me.data.returnable, me.control.returnable;
     me.data.returnable = 0;
     me.control.returnable = 0
  fi
}

inline return_credits() {
  if
  :: return_is_due(me.data) || return_is_due(me.control) ->
     post(credit);
#ifdef CREDIT_TAKES_A_CREDIT
     if
     :: went -> me.control.available--
     :: else
     fi;
#endif
#ifndef RETURN_NOT_REPEATED
     if
     :: !went -> me.control_waits = true
     :: else
     fi
#endif
  :: else
  fi
}

// credit_window::consumed. The target moves with the number of peers.
inline consumed(w, target) {
  w.held--;
  if
  :: w.granted > target -> w.granted--
  :: w.granted < target -> w.granted++; w.returnable = w.returnable + 2
  :: else -> w.returnable++
  fi
}

inline handle(what, data_credits, control_credits) {
  data_returning[_pid] = data_returning[_pid] - data_credits;
  control_returning[_pid] = control_returning[_pid] - control_credits;
  me.data.available = me.data.available + data_credits;
  me.control.available = me.control.available + control_credits;
  if
  :: what == eager -> data_under_way[_pid]--; me.data.held++
  :: what == fin ->
     control_under_way[_pid]--;
     me.control.held++;
     answered[_pid]++;
     consumed(me.control, control_window);
#ifdef CONSUMED_TWICE
     me.control.returnable++
#endif
  :: what == credit
  fi;
  return_credits();
  data_credits = 0;
  control_credits = 0
}

active [2] proctype application() {
  byte sent, refusals, data_credits, control_credits;
  bool went;
  mtype what;
  byte target = data_window;
  atomic {
    if
    :: _pid == 0 -> start(0); start(1); started = true
    :: else
    fi
  };
  started;
  do
  :: atomic { sent < MESSAGES && can_send(me.data) && nfull(to[peer]) ->
       post(eager);
       if
       :: went -> sent++; me.data.available--; data_under_way[peer]++
       :: else
       fi;
       went = false;
       check() }
  :: atomic { to[_pid] ? what, data_credits, control_credits -> handle(what, data_credits, control_credits); check() }
     // Messages may be taken late: only when no other can come does the application have to.
  :: atomic { me.data.held > 0 && (me.data.held == me.data.granted || taken[_pid] + me.data.held == MESSAGES) ->
       taken[_pid]++;
       if
       :: target = data_window
#if data_window > 1
       :: target = data_window - 1
#endif
#ifdef WINDOW_SHRINKS_TO_NOTHING
       :: target = 0
#endif
       fi;
       consumed(me.data, target);
       if
       :: taken[_pid] % 2 == 0 -> me.queued++ // send_fin
       :: else
       fi;
       return_credits();
       went = false;
       check() }
  :: atomic { me.queued > 0 && can_send(me.control) && nfull(to[peer]) -> // flush_control
       post(fin);
       if
       :: went -> me.queued--; me.control.available--; control_under_way[peer]++
       :: else
       fi;
       went = false;
       check() }
  :: atomic { me.control_waits && nfull(to[peer]) -> // flush_waiting
       me.control_waits = false;
       return_credits();
       went = false;
       check() }
  :: atomic { taken[_pid] == MESSAGES && answered[_pid] == MESSAGES / 2 && me.queued == 0 && sent == MESSAGES -> break }
  od;
  // Goes on taking what comes.
end_of_application:
  do
  :: atomic { to[_pid] ? what, data_credits, control_credits -> handle(what, data_credits, control_credits); went = false; check() }
  :: atomic { me.control_waits && nfull(to[peer]) -> me.control_waits = false; return_credits(); went = false }
  od
}
