#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Shows what the simulator finds: undoes fixes of the past, and breaks what no fix was needed for yet, one at a time,
runs schedules until one fails, and prints a table.

All of them are compiled into one binary, in a copy of the tree, and the environment picks one: so each costs a run and
no compilation.

  tests/sim/mutants.py [--copy FOLDER] [--first-seed S] [--schedules N] [NAME...]
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = "prov/proto"

# (name, what it undoes, file, text, what is there instead). A text with a semicolon is statements, else an expression.
MUTANTS = [
    ("closed-peer-asks-again", "bfaa1e6", "connection_events.cpp",
     "!closed &&\n      (is_older(c, request.remote_hello) || !is_from_its_host(*request.info, request.remote_hello))",
     "is_older(c, request.remote_hello) || !is_from_its_host(*request.info, request.remote_hello)"),
    ("last-words-before-the-end", "07cd59d", "connection_events.cpp", "observer_.connections_ending();", ""),
    ("last-words-behind-an-error", "handle_completions", "progress.cpp", "left -= std::min(left, taken);", "break;"),
    ("end-in-the-middle", "07cd59d", "connection_events.cpp",
     "if (connection* const c = connections_.of(endpoint)) return lost_soon(*c, FI_ECONNRESET);",
     "if (connection* const c = connections_.of(endpoint)) return fail(*c, FI_ECONNRESET);"),
    ("request-before-the-end", "5061f00, e7c2b55", "connection_events.cpp",
     "requests_.defer(std::move(request));\n  fail_soon(c, FI_ECONNRESET);",
     "peer& p = *c.remote;\n  fail(c, FI_ECONNRESET);\n"
     "  accept(p, *request.info, request.remote_hello);"),
    ("late-request-ends-its-successor", "meet_request", "connection_events.cpp",
     "!closed && c.state == connection_state::accepting", "false"),
    ("any-other-error-is-an-answer", "is_lost_on_the_way", "connection_events.cpp",
     "(!over_rdma && error != 0 && !is_an_answer(error))", "false"),
    ("busy-end-agrees-to-close", "connection_closer", "connection_closer.cpp", "c.closing.agreed || c.is_idle()", "true"),
    ("busy-end-closes", "connection_closer", "connection_closer.cpp", "c.closing.peer_agreed && c.is_idle()",
     "c.closing.peer_agreed"),
    ("begins-on-a-closing-connection", "connection_closer", "connection_manager.cpp",
     "p.current->state == connection_state::connected", "p.current->usable()"),
    ("early-sends-after-a-refusal", "connection_closer", "packet_dispatcher.cpp",
     "if (before == connection_state::closing && c.state == connection_state::connected)\n    parts_.sender.connection_up(c);", ""),
    ("refusal-ends-an-agreement", "connection_closer", "connection_closer.cpp",
     "!c.closing.agreed && c.usable()", "c.usable()"),
    ("early-sends-fail-with-a-closed-one", "connection_closer", "message_sender.cpp", "c.closing.is_wanted() || c.remote->current",
     "c.remote->current != nullptr"),
    ("no-room-where-all-are-busy", "connection_room", "connection_room.hpp", "return now - full_since_ < patience;", "return true;"),
    ("delivery-is-not-told", "deliver_plainly", "message_delivery.cpp",
     "receive.is_plain && !(flags & wire::want_fin)", "receive.is_plain"),
    ("expected-is-not-consumed", "take_in_place", "packet_dispatcher.cpp",
     "c.shm->in().pop();\n  admit(c, head);\n  parts_.channel.consume(c);",
     "c.shm->in().pop();\n  admit(c, head);"),
    ("promises-more-than-is-posted", "credit_pool", "credit_pool.cpp", "std::min(wanted, others_)", "wanted"),
    ("released-credits-are-used", "credit_pool", "credits.hpp", "available_ -= count;\n    return count;", "return count;"),
    ("both-requests-go-on", "simultaneous connects", "connection_events.cpp", "precedes(from, name())", "false"),
    ("neither-request-goes-on", "simultaneous connects", "connection_events.cpp", "precedes(from, name())", "true"),
    ("another-address-is-unknown", "session_routes", "connection_events.cpp",
     "resumed && is_other_address_of(*resumed, from)", "false"),
    ("other-routes-before-they-are-known", "session_routes", "route.cpp",
     "!settings_ || !c.at_core.rails || !c.at_core.rails->has_answer",
     "!settings_ || !c.at_core.rails || c.at_core.rails->places.empty()"),
    ("keys-of-the-first-nic", "session::is_away", "rma_initiator.hpp", "!c.session.is_away", "true"),
    ("keys-of-the-first-nic-again", "session::is_away", "session_recovery.hpp",
     "w.what == posted_op::kind::direct && c.session.is_away", "false"),
    ("keys-of-the-first-nic-for-transfers", "session::is_away", "data_mover.cpp",
     "t.length >= from || t.connection->session.is_away", "t.length >= from"),
    ("slot-before-it-is-filled", "session::may_move", "data_mover_completions.cpp",
     "(rail > 1 || (t.connection && t.connection->session.may_move))", "rail > 1"),
    ("undone-rma-of-another-nic", "session_recovery", "session_recovery.cpp",
     "list_to_redo(c);\n    parts_.connections.resumed(c);", "parts_.connections.resumed(c);"),
    ("messages-registered-elsewhere", "core_transport::post_message", "core_transport.cpp",
     "if (reg::other_nic* const nic = c.nic()) [[unlikely]]\n    if (const int ret = descriptors_at(*nic, b, descriptors)) return ret;",
     ""),
    ("receives-registered-elsewhere", "receive_buffers", "receive_buffers.cpp",
     "at.nic ? b.descriptor_at(*at.nic) : b.descriptor()", "b.descriptor()"),
    ("fence-at-the-wrong-nic", "write_fence", "write_fence.hpp",
     "r.peer_nic != c.at_core.rails->rails.front().peer_nic", "r.peer_nic != 0"),
    ("resumption-is-not-answered", "handle_resumption", "connection_events.cpp",
     "if (!c->ep) opener_.reject(info, wire::reject_reason::resources);", ""),
    ("silence-is-no-loss", "link_watch", "link_watch.cpp",
     "if (is_too_long(++at.link.looks, at.posted.front()))\n    parts_.connections.lost_soon(c, FI_ETIMEDOUT);",
     "++at.link.looks;"),
    ("silent-rail-stays-up", "link_watch", "link_watch.cpp", "parts_.rails.fail(c, r);", ""),
    ("ranges-tell-before-all-arrived", "rma_ranges", "rma_ranges.hpp",
     "access.has_data && next + 1 == count && under_way != 0", "false"),
    ("ranges-go-on-at-another-process", "rma_ranges", "rma_ranges.cpp", "if (!connection_of(o)) return -FI_ECONNABORTED;", ""),
    ("writes-without-a-fence", "write_fence", "write_fence.hpp",
     "t.connection->goes_on() && begin_on_rails(t)", "false"),
    ("slots-without-a-fence", "write_fence", "write_fence.cpp",
     "return is_due(*t.connection, r) && r.now != rail::state::down;", "return r.now == rail::state::failing;"),
    ("told-of-is-not-enough", "data_mover", "data_mover_completions.cpp", "error && !is_there", "error != 0 && (error != 0 || is_there)"),
    ("fence-waits-for-ever", "write_fence", "rail_recovery.cpp",
     "r.now == rail::state::down || (r.now == rail::state::lost && r.peer_has_closed)", "false"),
    ("fence-without-room-is-forgotten", "write_fence", "write_fence.cpp", "r.fences.push_front(w);",
     "--w.owner->moved.in_flight;"),
    ("closes-without-lingering", "goodbye", "endpoint.cpp", "while (must_linger()) progress();", ""),
    ("claimed-rendezvous-of-the-gone", "b8ef715", "message_delivery.cpp", "if (m->connection == &c) m->connection = nullptr;", ""),
    ("repeated-call-gets-nowhere", "b678b91", "endpoint.cpp", "if (ret == -FI_EAGAIN) e.progress();", ""),
    ("alive-before-its-event", "connection_manager::confirm_connected", "packet_dispatcher.cpp",
     "c->usable() || parts_.connections.confirm_connected(*c)", "c->usable()"),
    ("registration-of-failed-pieces", "proto: end registrations of failed RMA", "core_transport.cpp", "piece.local = {};", ""),
    ("credits-of-a-refused-packet", "core_transport::inject", "core_transport.cpp",
     "if (ret) {\n    windows.restore();\n    s.take_back();\n  } else if (s.is_kept) {\n    s.owes_word = false;\n"
     "    s.packets.add(packet, length);\n  }",
     "if (ret) {\n    s.take_back();\n  } else if (s.is_kept) {\n    s.owes_word = false;\n"
     "    s.packets.add(packet, length);\n  }"),
    ("credits-of-a-refused-message", "core_transport::send", "core_transport.cpp",
     "windows.restore();\n    s.take_back();\n    return ret;", "s.take_back();\n    return ret;"),
    ("credits-never-tried-again", "return_credits", "packet_channel_control.cpp",
     "if (send_header(c, wire::kind::credit)) let_control_wait(c);",
     "static_cast<void>(send_header(c, wire::kind::credit));"),
    ("credit-of-a-kept-message", "forget", "message_delivery.cpp", "--m.connection->receives.withheld;\n    parts_.channel.consumed_data(*m.connection);",
     "--m.connection->receives.withheld;"),
    ("unexpected-bytes-are-forgotten", "forget", "message_delivery.cpp", "unexpected_.drop(m.info.from->unexpected, footprint(m.info));",
     "unexpected_.drop(m.info.from->unexpected, footprint(m.info) - 1);"),
    ("held-buffers", "47b9928, of its kind", "message_delivery.cpp",
     "--held_buffers_;\n    parts_.buffers.give_back(*m.holder);", "parts_.buffers.give_back(*m.holder);"),
    ("armed-before-it-is", "endpoint::try_wait", "progress.cpp", "noticed_.is_armed = ret == 0 && transport_.core().over_rdma();",
     "noticed_.is_armed = transport_.core().over_rdma();"),
    ("asleep-with-work", "endpoint::try_wait", "progress.cpp", "!is_silent || !is_idle()", "!is_silent"),
    ("asleep-without-the-other-nics", "core_transport::sources", "core_transport.cpp",
     "for (const auto& other : others_) from.all[from.count++] = &other->fid;", ""),
    ("receives-never-posted-again", "4e97f7f, of its kind", "progress.cpp", "receive_buffers_.post_more();", ""),
    ("stalled-and-forgotten", "data_mover::progress", "data_mover.cpp", "did != issue_result::waiting && t.moved.in_flight == 0",
     "did != issue_result::waiting && t.moved.in_flight > 1"),
    ("queue-of-a-failed-connection", "connection_down", "progress.cpp", "channel_.connection_down(c, error);", ""),
    ("posted-message-ends-twice", "core_transport::connection_down", "core_transport.cpp", "b.on_sent = {};", ""),
    ("done-before-the-last-read", "piece_finished", "data_mover_completions.cpp", "t.moved.finished < t.length", "t.moved.issued < t.length"),
    ("ends-under-the-core", "try_retire", "transfer_completion.cpp", "!t.ending.begun || t.moved.in_flight != 0", "!t.ending.begun"),
    ("source-is-never-told", "try_retire", "transfer_completion.cpp", "!t.ending.tell_peer && !failed_source", "!failed_source"),
    ("sender-of-a-discarded-message", "discard_message", "message_delivery.cpp",
     "m.connection && (m.info.rendezvous || (m.info.flags & wire::want_fin))", "m.connection && false"),
    ("multi-receive-given-back-early", "message_ended", "multi_receive.cpp",
     "--unfinished_ != 0 || !full_", "(--unfinished_, !full_)"),
    ("sends-nothing-again", "session_recovery", "session_recovery.cpp", "parts_.transport.send_again(c, p)", "0"),
    ("takes-packets-twice", "session_recovery", "session_recovery.cpp", "head.number != s.received + 1", "head.number == 0"),
    ("undone-rma-is-forgotten", "session_recovery", "session_recovery.cpp", "parts_.mover.post_again(w)", "0"),
    ("peers-are-told-nothing", "session_recovery", "session_recovery.cpp",
     "parts_.transport.send_header(*c, wire::kind::credit)", "0"),
    ("lost-connections-fail-rma", "session_recovery", "session_recovery.cpp", "!is_lost || is_over(w)", "true"),
    ("closes-while-interrupted", "connection_closer", "connection_closer.cpp",
     "if (c.usable()) c.state = connection_state::closing;", "c.state = connection_state::closing;"),
    ("word-on-the-channel-is-missed", "shm_negotiator", "shm_negotiator.hpp",
     "c->is_interrupted() || c->handshake.awaits_shm", "c->handshake.awaits_shm"),
    ("sleeps-before-it-leaves", "connection_closer", "connection_closer.cpp", "c->closing.owes_answer || may_leave(*c)",
     "c->closing.owes_answer"),
    ("waits-for-silence-to-close", "link_watch", "link_watch.cpp", "(reconnector::may_go_on(c) || c.closing.peer_agreed)",
     "reconnector::may_go_on(c)"),
    ("copies-where-it-may-not", "cooperative_copier", "cooperative_copier.cpp", "t.connection->shm->cma() != nullptr", "true"),
    ("sleeper-is-not-woken", "shm_transport", "shm_transport.hpp", "c.shm->out().commit(c.shm->peer_sleeps())",
     "c.shm->out().commit(c.shm->peer_sleeps()) && false"),
    ("device-writes-are-not-flushed", "transfer_flush", "transfer_flush.cpp", "!on || on == last", "true"),
    ("peers-writes-are-not-flushed", "transfer_flush", "transfer_flush.cpp",
     "!flush_ || !device::may_be_device_address(address)", "true"),
    ("told-chunk-is-not-written", "session_recovery", "rma_operation.hpp",
     "t.slots.in_use", "(t.slots.in_use && w.rail == 77)"),
    ("rma-of-a-dead-peer-is-forgotten", "direct_rma", "direct_op.hpp",
     "    completion.end({.error = error});", ""),
    ("data-of-direct-writes-is-forgotten", "direct_rma", "direct_rma.cpp", "op.has_data && error == 0 && c.goes_on()", "false"),
    ("rma-of-a-lost-rail-is-forgotten", "rail_recovery", "rail_recovery.cpp", "ret = post_elsewhere(w);", "ret = 0;"),
    ("lost-rails-fail-rma", "rail_recovery", "rail_recovery.cpp", "!t || (t->ending.begun && t->strategy != transfer_strategy::push)", "true"),
    ("rails-outlive-their-connection", "rail_recovery", "progress.cpp", "transfers_.rails.connection_down(c, error);", ""),
    ("copies-what-was-given-back", "data_mover", "data_mover_completions.cpp",
     "t->pull.via_copy_engine && !immediate_copies::peer_is_there(*t)", "false"),
    ("writes-come-after-a-failure", "transfer_completion", "transfer_completion.cpp", "t.flush.nic_wrote ? flush_.flush_local(t) : 0",
     "t.flush.nic_wrote && t.outcome.status == 0 ? flush_.flush_local(t) : 0"),
    ("no-is-an-answer", "shm_negotiator", "connection_events.cpp",
     "c->shm && shm_.is_settled_or_awaited(*c) &&\n        c->shm", "c->shm && shm_.is_settled_or_awaited(*c)"),
    ("chunk-keeps-its-fence", "write_fence", "write_fence.cpp", "w.chunk->rail = 0;", ""),
    ("sends-what-a-device-has-lost", "packet_channel", "packet_channel.cpp", "b.gathered.loss()", "0"),
    ("sends-again-what-is-lost", "session_recovery", "session_recovery.cpp", "ret == 0 && is_gone(p)", "false"),
    ("failure-overtakes-writes", "transfer_completion", "transfer_completion.cpp", "failed_source ? behind_data(t) : 0", "0"),
    ("begins-while-it-is-resumed", "core_transport", "core_transport.hpp", "(c.usable() || c.session.is_replaying)", "true"),
    ("reads-badly-after-a-denial", "immediate_copies", "immediate_copies.hpp",
     "!(t.connection->shm && t.connection->shm->cma())", "false"),
]

# Checks of what a peer says, which it takes a peer to break that is not honest: sim --forged.
CHECKS = [
    ("fin-of-anothers-operation", "handle_fin", "transfer_packets.cpp", "!t || t->connection != &c || fields.status < 0",
     "!t || fields.status < 0"),
    ("operation-of-another", "find_active", "transfer_table.hpp", "t->connection == &c", "true"),
    ("chunk-past-the-end", "handle_chunk", "transfer_packets.cpp", "fields.length > t->length - fields.offset", "false"),
    ("grants-more-than-there-is", "handle_cts", "transfer_packets.cpp", "cts.length > t->memory.length()", "false"),
    ("releases-more-than-it-may", "handle_credit_release", "packet_dispatcher.cpp", "fields.count > c.data.may_be_released()", "false"),
    ("helps-with-more-than-there-is", "start_assist", "cooperative_copier.cpp", "request.length > t->memory.length()", "false"),
    ("helps-with-any-words", "start_assist", "cooperative_copier.cpp", "request.words >= ipc::cooperative_copies::most", "false"),
    ("slot-of-any-number", "shared_slots", "shared_slots.cpp", "number >= all.size()", "false"),
    ("reads-badly-from-a-device", "is_copied_by_kernel", "rendezvous_sink.cpp",
     "c.shm && c.shm->cma() && is_on_host(source)", "c.shm && c.shm->cma()"),
    ("fences-without-rails", "write_fence", "write_fence.cpp", "set ? set->rails.size() : 0", "set->rails.size()"),
    ("keys-of-any-number", "rail_keys", "rail_keys.cpp", "answer.count > wire::max_segments", "false"),
    ("keys-at-any-nic", "rail_keys", "rail_keys.cpp", "answer.nic >= wire::max_rails", "false"),
    ("keys-of-some-only", "rail_keys", "rail_keys.cpp", "answer.count != t->remote.size()", "false"),
]


def switched(number, text, instead):
    """The text, or what is there instead of it for this number."""
    if ";" in text:
        return f"{{\n  if (sim_mutant == {number}) {{\n  {instead}\n  }} else {{\n  {text}\n  }}\n  }}"
    return f"(sim_mutant == {number} ? ({instead}) : ({text}))"


def source_of(root, file):
    """The one file of this name among the protocol's, whichever room it is in."""
    found = list((root / PROTO).rglob(file))
    if len(found) != 1:
        raise FileNotFoundError(f"{file} is in {PROTO} {len(found)} times")
    return found[0]


def copy_tree(folder):
    folder.mkdir(parents=True, exist_ok=True)
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for path in (folder / "prov").rglob("*.?pp"):
        if str(path.relative_to(folder)) not in names:
            path.unlink()  # it has moved, or is no more
    for name in filter(None, names):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        bytes_now = (ROOT / name).read_bytes()
        if not target.exists() or target.read_bytes() != bytes_now:
            target.write_bytes(bytes_now)
    (folder / "tests/tools").mkdir(parents=True, exist_ok=True)


def plant(folder):
    """Puts all mutants in; the names of those whose text is not there any more."""
    gone = set()
    changed = {}
    for number, (name, _, file, text, instead) in enumerate(MUTANTS + CHECKS, 1):
        path = source_of(folder, file)
        source = changed.get(path, path.read_text(encoding="utf-8"))
        if text not in source:
            gone.add(name)
            continue
        changed[path] = source.replace(text, switched(number, text, instead), 1)
    for path, source in changed.items():
        path.write_text("extern int sim_mutant;\n" + source, encoding="utf-8")
    main = folder / "tests/sim/main.cpp"
    main.write_text(main.read_text(encoding="utf-8") +
                    '\nint sim_mutant = std::getenv("SIM_MUTANT") ? std::atoi(std::getenv("SIM_MUTANT")) : 0;\n',
                    encoding="utf-8")
    return gone


def build(folder):
    subprocess.run(["cmake", "--preset", "release"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "build", "--target", "sim"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "build/tests/sim/sim"


def verdict(binary, number, arguments):
    """(seed, what the simulator said) of the first schedule that fails."""
    environment = dict(os.environ, SIM_MUTANT=str(number), FI_LOG_LEVEL="")
    try:
        ran = subprocess.run([binary, "--brief", *arguments], capture_output=True, text=True, check=False,
                             timeout=300, env=environment)
    except subprocess.TimeoutExpired:
        return "-", "a schedule does not come to its end"
    found = re.search(r"^seed (\d+): (.*)$", ran.stdout, re.MULTILINE)
    if found:
        return found.group(1), found.group(2)
    if ran.returncode != 0:
        running = re.search(r"^running (\d+)$", ran.stderr, re.MULTILINE)
        return running.group(1) if running else "-", f"ends with signal {-ran.returncode}"
    return "-", "**not found**"


def misplaced():
    """Names of those whose text is not in its file exactly once, so that something else would be broken, or nothing."""
    return [name for name, _, file, text, _ in MUTANTS + CHECKS
            if source_of(ROOT, file).read_text(encoding="utf-8").count(text) != 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build/mutants")
    parser.add_argument("--schedules", type=int, default=20000)
    parser.add_argument("--first-seed", type=int, default=1, help="for those that fail seldom: the table says at which")
    parser.add_argument("--check", action="store_true", help="only whether the text of each is where it is said to be")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.check:
        for name in misplaced():
            print(f"{name}: its text is not in its file, or more than once")
        return 1 if misplaced() else 0
    copy_tree(asked.copy)
    gone = plant(asked.copy)
    binary = build(asked.copy)
    print("| mutant | undoes, or breaks | seed | the simulator said |\n|---|---|---|---|")
    for number, (name, undone, *_) in enumerate(MUTANTS + CHECKS, 1):
        if asked.names and name not in asked.names:
            continue
        arguments = ["--first-seed", str(asked.first_seed), "--schedules", str(asked.schedules)]
        if number > len(MUTANTS):
            arguments.append("--forged")
        seed, said = ("-", "its text is gone") if name in gone else verdict(binary, number, arguments)
        print(f"| {name} | {undone} | {seed} | {said} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
