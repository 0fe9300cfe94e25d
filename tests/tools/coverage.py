#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Which lines and branches of the provider ran:  coverage.py [--clear | --lines FILE] BUILD

BUILD is a folder of the preset coverage in which tests have run. Prints a table of the rooms below prov/, and the files that
have the most lines of which none ran; --lines instead which lines of one file did not. --clear forgets earlier runs.
Branches that only an exception takes, and those of log macros, which ask for the level, do not count. What needs an RDMA
device is tested in the virtual machine, which counts nothing here.
"""
import argparse
import collections
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES = 12


def counted(build: pathlib.Path) -> list[dict]:
    """The files below prov/ as gcovr knows them."""
    command = ["gcovr", "--root", ROOT, "--object-directory", build, "--filter", "prov/", "--exclude-throw-branches",
               "--exclude-unreachable-branches", "--exclude-branches-by-pattern", ".*GAUDI_(WARN|INFO|DEBUG).*",
               build / "prov", "--json"]
    files = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["files"]
    if not files:
        raise SystemExit(f"error: nothing has run in {build}: build it with the preset coverage, and run tests there")
    return files


def lines_of(file: dict) -> list[dict]:
    return [line for line in file["lines"] if not line.get("gcovr/noncode") and not line.get("gcovr/excluded")]


def missed(file: dict) -> list[int]:
    return [line["line_number"] for line in lines_of(file) if line["count"] == 0]


def as_ranges(numbers: list[int]) -> str:
    """"3 7-9": those that follow each other in one."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"


def print_rooms(files: list[dict]) -> None:
    rooms: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0, 0])
    for file in files:
        lines = lines_of(file)
        branches = [branch for line in lines for branch in line["branches"]]
        of_file = (len(lines) - len(missed(file)), len(lines), sum(branch["count"] > 0 for branch in branches), len(branches))
        for name in (str(pathlib.PurePath(file["file"]).parent), "all"):
            rooms[name] = [a + b for a, b in zip(rooms[name], of_file)]
    print(f"{'room':24} {'lines':>6} {'ran %':>6} {'branches':>9} {'ran %':>6}")
    for name in sorted(rooms, key=lambda name: (name == "all", name)):
        ran, lines, taken, branches = rooms[name]
        print(f"{name:24} {lines:6} {percent(ran, lines):>6} {branches:9} {percent(taken, branches):>6}")


def print_worst(files: list[dict]) -> None:
    print("\nlines that did not run")
    for file in sorted(files, key=lambda file: -len(missed(file)))[:MOST_FILES]:
        print(f"{len(missed(file)):6}  {file['file']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--clear", action="store_true")
    way.add_argument("--lines", metavar="FILE")
    asked = parser.parse_args()
    build = asked.build.resolve()
    if asked.clear:
        for counts in build.rglob("*.gcda"):
            counts.unlink()
        return
    files = counted(build)
    if not asked.lines:
        print_rooms(files)
        return print_worst(files)
    print(as_ranges([number for file in files if file["file"] == asked.lines for number in missed(file)]))


if __name__ == "__main__":
    main()
