# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a run has found, as text."""

import collections


def share(killed, count):
    return f"{100 * killed / count:.1f} %" if count else "-"


def table(verdicts, answered):
    """A line for each room."""
    count = collections.Counter((v.site.room, v.state) for v in verdicts)
    reasons = collections.Counter(s.room for s in answered)
    rooms = sorted({v.site.room for v in verdicts} | set(reasons))
    yield "| room | mutants | killed | survived | no test comes by | killed of all | have a reason, not run |"
    yield "|---|---|---|---|---|---|---|"
    for room in [*rooms, "all"]:
        states = [sum(n for (r, s), n in count.items() if s == state and room in (r, "all"))
                  for state in ("killed", "survived", "unreached")]
        given = sum(reasons.values()) if room == "all" else reasons[room]
        yield f"| {room} | {sum(states)} | {' | '.join(map(str, states))} | {share(states[0], sum(states))} | {given} |"


def operators(verdicts):
    count = collections.Counter((v.site.operator, v.state == "killed") for v in verdicts)
    for operator in sorted({o for o, _ in count}):
        killed, other = count[operator, True], count[operator, False]
        yield f"  {operator}: {killed} of {killed + other}"


def killers(verdicts):
    count = collections.Counter(v.by.split(":")[0].split(" ")[0] for v in verdicts if v.state == "killed")
    return [f"  {name}: {number}" for name, number in count.most_common()]


def survivors(verdicts):
    for state, title in (("survived", "Survivors"), ("unreached", "No test comes by")):
        those = [v.site for v in verdicts if v.state == state]
        if those:
            yield f"\n{title}:"
            yield from (f"  {site}" for site in those)


def text(verdicts, answered, stale):
    lines = list(table(verdicts, answered))
    lines += ["\nKilled, by operator:", *operators(verdicts), "\nKilled, by test program:", *killers(verdicts)]
    lines += survivors(verdicts)
    if stale:
        lines += ["\nIn answers.toml, but no mutant any more:", *(f"  {key}" for key in stale)]
    return "\n".join(lines) + "\n"


def all_verdicts(verdicts):
    """A line for each mutant."""
    return "".join(f"{v.state} {v.site}{' | ' + v.by if v.by else ''}\n" for v in verdicts)
