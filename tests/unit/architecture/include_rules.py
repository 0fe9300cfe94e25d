# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which room of prov/ may include which: entry -> fi -> proto -> {reg, copy, ipc, topo} -> device -> hl,
with core beside and base below all."""

import pathlib
import re

# A room includes rooms of a lower rank. Rooms of one rank may include each other, but not in a circle.
RANKS = {"entry": 6, "fi": 5, "proto": 4, "reg": 3, "copy": 3, "ipc": 3, "topo": 3, "device": 2, "interpose": 2, "hl": 1,
         "base": 0}
# core stands beside that order: it sees what the machine has (topo), and these rooms see it.
CORE_SEES = {"core", "topo", "base"}
SEES_CORE = {"core", "fi", "proto", "reg"}

# Rooms that call libfabric, or speak its log and parameter interface (base).
LIBFABRIC_ROOMS = {"entry", "fi", "proto", "reg", "core", "base"}
# Headers that name constants only, which every room may use.
LIBFABRIC_CONSTANTS = {"rdma/fi_errno.h", "rdma/fi_ext_gaudi.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def allowed(source, target):
    """Whether a file of room `source` may include one of room `target`."""
    if source == "core":
        return target in CORE_SEES
    if target == "core":
        return source in SEES_CORE
    return source == target or RANKS[source] > RANKS[target] or (
        RANKS[source] == RANKS[target] and source != target)


def check_include(room, quote, header):
    """The rule that an include of `header` in a file of `room` breaks, or None."""
    if quote == "<":
        if header.startswith("rdma/") and room not in LIBFABRIC_ROOMS and header not in LIBFABRIC_CONSTANTS:
            return f"room {room} does not use libfabric, but includes <{header}>"
        return None
    target = header.split("/")[0]
    if header.startswith("rdma/"):
        return None
    if "/" not in header or (target not in RANKS and target != "core"):
        return f'"{header}" is not of the form "room/file.hpp"'
    if not allowed(room, target):
        return f"room {room} must not include room {target} (\"{header}\")"
    return None


def includes(prov):
    """Yields (file, line number, room, quote, header) for each include under the folder `prov`."""
    rooms = set(RANKS) | {"core"}
    for path in sorted(pathlib.Path(prov).glob("*/**/*")):
        room = path.relative_to(prov).parts[0]
        if path.suffix not in {".cpp", ".hpp", ".h", ".c"}:
            continue
        content = path.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(content):
            line = content.count("\n", 0, match.start(1)) + 1
            if room not in rooms:
                raise ValueError(f"{path}: prov/{room} is not a known room; give it a rank in {__file__}")
            yield path, line, room, match.group(1), match.group(2)


def find_circle(edges):
    """A circle of rooms in `edges` (room -> set of rooms) as a list, or None."""
    without = set()  # rooms from which no way leads into a circle

    def walk(room, trail):
        if room in trail:
            return trail[trail.index(room):] + [room]
        if room in without:
            return None
        for target in sorted(edges.get(room, ())):
            circle = walk(target, trail + [room])
            if circle:
                return circle
        without.add(room)
        return None

    for room in sorted(edges):
        circle = walk(room, [])
        if circle:
            return circle
    return None


def violations(prov):
    """One line for each include under the folder `prov` that breaks a rule, and for a circle of rooms."""
    found, edges = [], {}
    for path, line, room, quote, header in includes(prov):
        broken = check_include(room, quote, header)
        if broken:
            found.append(f"{path}:{line}: {broken}")
        elif quote == '"' and not header.startswith((room + "/", "rdma/")):
            edges.setdefault(room, set()).add(header.split("/")[0])
    circle = find_circle(edges)
    if circle:
        found.append("rooms include each other in a circle: " + " -> ".join(circle))
    return found
