#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mutation testing: changes the provider in small ways, one at a time, and says which changes no unit test notices.

All mutants are compiled at once into a copy of the tree (build/mutate), where each asks at run time whether it is the active
one; so a mutant costs a run of the tests that come by its place, and no compilation. A failed test, a crash or a hang kills it.
What is no mutant that a test can, or need, kill is in answers.toml with a reason, and is not run.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

import answers
import copy_tree
import find
import programs
import report
import sample
import verdict

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ROOMS = sorted(verdict.NEAREST)


def say(text):
    print(text, flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be given several times; default: all of them")
    parser.add_argument("--count", type=int, default=320, help="how many mutants, as many of each room (default %(default)s); 0: all")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default %(default)s)")
    parser.add_argument("--only", action="append", metavar="ID", help="this mutant, may be given several times")
    parser.add_argument("--list", action="store_true", help="names the mutants, and runs none")
    parser.add_argument("--answers", action="store_true", help="prints survivors as entries for answers.toml")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="where the report goes as well; FILE.all has each mutant")
    parser.add_argument("--at-least", type=float, default=0, metavar="PERCENT", help="exit status 1 if fewer are killed")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/mutate", help="of the copy (default: build/mutate)")
    asked = parser.parse_args()
    asked.folder = asked.folder.resolve()
    return asked


def commands_of(folder):
    """How clang compiles each file of the tree: from a build folder of its own, as nobody else may have configured one."""
    subprocess.run(["cmake", "--preset", "release", "-B", folder / "commands", "-DGAUDI_TESTS=OFF", "-DGAUDI_UNITY=OFF",
                    "-DCMAKE_C_COMPILER=clang-14", "-DCMAKE_CXX_COMPILER=clang++-14"], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "commands/compile_commands.json"


def choose(asked, sites):
    if asked.only:
        chosen = [s for s in sites if s.id in asked.only]
        missing = set(asked.only) - {s.id for s in chosen}
        if missing:
            sys.exit(f"no such mutant: {' '.join(sorted(missing))}")
        return chosen
    return sample.sample(sites, asked.count or len(sites), asked.seed)


def judged(chosen, available, commands):
    """Each verdict, said as it comes."""
    found = []
    began = time.monotonic()
    for site in chosen:
        found.append(verdict.judge(site, available, ROOT, commands))
        if found[-1].state != "killed":
            say(f"{found[-1].state}: {site}")
        if len(found) % 50 == 0:
            say(f"  {len(found)} of {len(chosen)} after {time.monotonic() - began:.0f} s")
    return found


def run(asked, sites, chosen, rooms, commands):
    """Compiles all, so that the next choice needs no compilation."""
    copy = copy_tree.CopyOfTree(ROOT, asked.folder / "tree")
    say(f"compiling {len(sites)} mutants")
    compiled = {s.id for s in copy_tree.build(copy, sites, verdict.targets(rooms), say)}
    chosen = [s for s in chosen if s.id in compiled]
    available = programs.of_ctest(copy.build_folder, verdict.names(rooms))
    say(f"running {', '.join(available)} without a mutant")
    for program in available.values():
        program.record()
    say(f"running {len(chosen)} mutants")
    return judged(chosen, available, commands)


def main():
    asked = options()
    rooms = asked.room or ROOMS
    asked.folder.mkdir(parents=True, exist_ok=True)
    commands = commands_of(asked.folder)
    sites = find.mutants(ROOT, rooms, commands)
    to_run, answered, stale = answers.split(sites, answers.read(HERE / "answers.toml"))
    chosen = choose(asked, sites if asked.only else to_run)
    say(f"{len(sites)} mutants in {', '.join(rooms)}, {len(answered)} of them with a reason; {len(chosen)} chosen")
    if asked.list:
        for site in chosen:
            say(str(site))
        return 0
    found = run(asked, sites, chosen, rooms, commands)
    if asked.answers:
        for left in found:
            if left.state != "killed":
                say(answers.text_of(left.site, ""))
    text = report.text(found, answered, stale)
    say("\n" + text)
    if asked.report:
        asked.report.write_text(text, encoding="utf-8")
        pathlib.Path(f"{asked.report}.all").write_text(report.all_verdicts(found), encoding="utf-8")
    killed = sum(v.state == "killed" for v in found)
    return 0 if 100 * killed >= asked.at_least * len(found) else 1


if __name__ == "__main__":
    os.nice(5)
    sys.exit(main())
