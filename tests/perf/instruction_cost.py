#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Instructions that the provider's own code takes for an operation, counted by callgrind, against the limits in
instruction_limits.json. Unlike times they hardly change from run to run or machine to machine, so they gate changes.
The same profile shows what the provider calls in the C and C++ libraries: nothing that allocates or enters the kernel.

  tests/perf/instruction_cost.py --build build [--update]

--update writes the counts found, with room for noise, as the new limits of those cases that have no fixed one."""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COUNT = 1000
LIBRARY = "libgaudi-fi.so"
# Cases in programs of their own: how often they carry out COUNT operations, and how they are called. The first three are
# below libfabric's interface and have the provider's rooms in them; the others read an empty completion queue of an endpoint
# with so many idle peers.
PROGRAMS = {
    "cache-hit": (15, ["perf_cache_cost", "hit", "1024", "1", "{count}"]),
    "address-lookup": (15, ["perf_cache_cost", "lookup", "1024", "{count}"]),
    "region": (20, ["perf_region_cost", "{build}/util/hlsim/libhl-thunk.so", "{count}", "alike"]),
    "idle-1": (1, ["perf_idle_poll", "1", "{count}"]),
    "idle-64": (1, ["perf_idle_poll", "64", "{count}"]),
}
# On the newer libfabric: tcp of 1.17 looks at each connection itself, for so long that what is done from time to time
# counts for more with 64 of them than with one, and the more the busier the machine is.
ON_NEWER_LIBFABRIC = ("idle-1", "idle-64")
# Through shared memory, as between two processes of one host; the operation is that of another case.
SAME_HOST = {"tagged-message-local": "tagged-message"}
# They look from time to time whether another process wants to share memory.
OCCASIONAL = re.compile(r"^accept4$")
HAVE_ROOMS = ("perf_cache_cost", "perf_region_cost")
LIMITS = pathlib.Path(__file__).with_name("instruction_limits.json")
ROOM = 1.05
# All that the eager path may call: these neither allocate nor enter the kernel (an uncontended lock does not; the
# clock is the vdso's).
FREE_OF_SYSTEM_CALLS = re.compile(r"^_*(errno_location|pthread_mutex_(un)?lock|pthread_setcancelstate|mem(cpy|move|set|cmp)|clock_gettime|std::chrono::.*::now)")


class Profile:
    """What callgrind wrote: instructions by object file without their callees', and calls from one object to functions
    of another (the format is in callgrind's manual)."""

    def __init__(self, text):
        self.costs = collections.Counter()
        self.calls = collections.Counter()
        objects, functions = {}, {}
        here = callee_object = callee = None
        after_call = False
        for line in text.splitlines():
            if match := re.match(r"(c?ob|c?fn)=(\(\d+\))(?: (.*))?$", line):
                kind, number, name = match.groups()
                names = objects if kind.endswith("ob") else functions
                if name:
                    names[number] = name
                if kind == "ob":
                    here = names[number]
                elif kind == "fn":
                    callee_object = here
                elif kind == "cob":
                    callee_object = names[number]
                else:
                    callee = names[number]
            elif line.startswith("calls="):
                self.calls[here, callee_object, callee] += int(line[6:].split()[0])
                callee_object, after_call = here, True  # the line that follows is the callee's
            elif re.match(r"[+\-*\d]", line):
                if not after_call:
                    self.costs[here] += int(line.split()[1])
                after_call = False


def command_of(build, case):
    """What runs a case, and how many operations it counts."""
    if case not in PROGRAMS:
        return [build / "tests/perf/perf_operation_cost", SAME_HOST.get(case, case), "gaudi", COUNT], COUNT
    batches, words = PROGRAMS[case]
    name, *arguments = (word.format(build=build, count=COUNT) for word in words)
    return [build / "tests/perf" / name, *arguments], batches * COUNT


def profile_of(build, case, environment):
    """With how many operations it is of."""
    program, operations = command_of(build, case)
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder, "profile")
        command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=counted",
                   "--toggle-collect=*perf::counted*", f"--callgrind-out-file={written}", *map(str, program)]
        settings = environment | {"HLSIM_DIR": folder, "FI_GAUDI_IPC": "auto" if case in SAME_HOST else "off"}
        if case in ON_NEWER_LIBFABRIC:
            settings["LD_LIBRARY_PATH"] = str(build / "deps/libfabric-2.1/lib")
        done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f"{case}: {done.stderr.strip()}")
        return Profile(written.read_text()), operations


def is_provider(name):
    """The library, or a program that has its rooms in it."""
    return name is not None and name.endswith((LIBRARY, *HAVE_ROOMS))


def foreign_calls(profile, operations):
    """Functions of the C and C++ libraries that the provider calls, by how often for one operation."""
    found = collections.Counter()
    for (caller, callee_object, callee), count in profile.calls.items():
        if is_provider(caller) and re.search(r"/(libc|libstdc\+\+|ld-linux[^/]*)\.so", callee_object or ""):
            found[re.sub(r"'\d+$|@.*", "", callee)] += count / operations
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    build = options.build.resolve()
    environment = dict(os.environ, FI_PROVIDER_PATH=str(build / "prov"), FI_PROVIDER="gaudi", FI_GAUDI_CORE="tcp")
    limits = json.loads(LIMITS.read_text())

    over = False
    print(f"{'one operation':20} {'provider':>10} {'limit':>8} {'with core and libc':>20}")
    for case, limit in limits.items():
        profile, operations = profile_of(build, case, environment)
        own = sum(cost for name, cost in profile.costs.items() if is_provider(name)) / operations
        everything = sum(profile.costs.values()) / operations
        if own == 0:
            sys.exit(f"{case}: no instruction of the provider was counted")
        if options.update and not limit.get("fixed"):
            limit["instructions"] = round(own * ROOM)
        too_many = own > limit["instructions"]
        over = over or too_many
        print(f"{case:20} {own:10.1f} {limit['instructions']:8} {everything:20.1f}{'  over its limit' if too_many else ''}")
        for name, calls in foreign_calls(profile, operations).items():
            # What is rarer belongs to the first operations, which find nothing yet.
            if case in SAME_HOST and OCCASIONAL.search(name):
                continue
            if calls >= 0.01 and not FREE_OF_SYSTEM_CALLS.search(name):
                print(f"  calls {name}, {calls:.3f} times an operation, which may allocate or enter the kernel")
                over = True
    if options.update:
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
