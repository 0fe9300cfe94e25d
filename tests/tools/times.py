#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where the time of a test run went:  times.py STEPS CTEST-LOG

STEPS has a line `SECONDS NAME` for each step of util/run-tests.sh, as the clock has it; CTEST-LOG is what ctest printed. Tests
run side by side, so the seconds of tests add up to more than the clock's.
"""
import collections
import re
import sys

# " 12/128 Test  #9: asan.unit.reg.2 ......   Passed   18.49 sec"
LINE = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*\** *(?:[*]+)?([A-Z][A-Za-z ]*?) +([0-9.]+) sec")
BUILDS = {"asan": "asan", "tsan": "tsan", "fuzz": "fuzz"}


def place_of(test: str) -> tuple[str, str]:
    """The build and the kind of a test, by its name."""
    parts = test.split(".")
    build = BUILDS.get(parts[0], "release")
    if parts[0] in ("asan", "tsan"):
        parts = parts[1:]
    kind = ".".join(parts[:2]) if parts[:2] == ["integration", "mpi"] else parts[0]
    return build, kind


def main() -> None:
    tests = [(float(m[3]), m[1]) for m in map(LINE.match, open(sys.argv[2], errors="replace")) if m]
    print("steps, by the clock")
    for line in open(sys.argv[1]):
        seconds, name = line.split(maxsplit=1)
        print(f"  {int(seconds):6d} s  {name.strip()}")
    sums: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for seconds, name in tests:
        sums[place_of(name)].append(seconds)
    print("tests, by build and kind")
    for (build, kind), found in sorted(sums.items(), key=lambda item: -sum(item[1])):
        print(f"  {sum(found):6.0f} s  {build:8} {kind} ({len(found)})")
    print("the slowest tests")
    for seconds, name in sorted(tests, reverse=True)[:10]:
        print(f"  {seconds:6.0f} s  {name}")


if __name__ == "__main__":
    main()
