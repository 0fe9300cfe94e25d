# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Whether tests notice a mutant."""

import dataclasses

import locks
import programs
from mutant_site import Site

# The nearest first: a room's own tests, then those of the rooms that use it.
NEAREST = {
    "reg": ["unit.reg", "unit.fi", "unit.proto"],
    "ipc": ["unit.ipc", "unit.proto_sharing_memory", "unit.proto"],
    "copy": ["unit.copy", "unit.copy_gaudi1", "unit.fi", "unit.proto"],
    "device": ["unit.device", "unit.reg", "unit.copy", "unit.copy_gaudi1", "unit.fi", "unit.proto",
               "integration.own_mappings_watched", "integration.synapse"],
    "proto": ["unit.proto", "unit.proto_sharing_memory", "unit.fi", "sim.schedules"],
}
TARGETS = {"unit.proto_sharing_memory": "unit_proto", "unit.copy_gaudi1": "unit_copy", "sim.schedules": "sim",
           "integration.own_mappings_watched": "integration_own_mappings"}


def names(rooms):
    return sorted({name for room in rooms for name in NEAREST[room]})


def targets(rooms):
    return sorted({TARGETS.get(name, name.replace(".", "_")) for name in names(rooms)})


@dataclasses.dataclass
class Verdict:
    site: Site
    state: str  # killed, survived or unreached
    by: str = ""  # which test, and how it ended


def try_cases(site, program, cases):
    """A verdict where a test fails, crashes or does not end, else None."""
    whole = cases is None or "*" in cases
    ended, output = program.run(None if whole else cases, program.limit(cases), GAUDI_MUTANT=str(site.number))
    if not ended:
        return None
    case = programs.failed_case(output)
    return Verdict(site, "killed", f"{program.name}{' ' + case if case else ''}: {ended}")


def judge(site, available, root, commands):
    """Cases that come by the place come first. What runs once in a process, for the first case that needs it, is theirs as
    well that come later: so a survivor has to get through all of the room's own tests."""
    if site.operator == "lock" and (said := locks.complaint(site, root, commands)):
        return Verdict(site, "killed", f"lint.tidy: {said}")
    near = [available[name] for name in NEAREST[site.room] if name in available]
    reached = False
    for program in near:
        cases = program.cases_at(site.number)
        if cases:
            reached = True
            if verdict := try_cases(site, program, cases):
                return verdict
    if not reached:
        return Verdict(site, "unreached")
    for program in near:
        if program.name.startswith(f"unit.{site.room}") and program.cases_at(site.number):
            if verdict := try_cases(site, program, None):
                return verdict
    return Verdict(site, "survived")
