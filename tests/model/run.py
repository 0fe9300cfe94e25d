#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks the models of the protocol with Spin. With --full also that they would find something: each rule that a model names is
broken once, and the model must notice.

  tests/model/run.py [--full] [--cc COMPILER] [MODEL...]

Exit status: 0 all as it should be; 1 a model fails, or does not notice a broken rule; 77 spin is not installed.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
# Bounds: for every day, and for --full.
BOUNDS = {
    "connection": (["-Dmost=4"], ["-Dmost=5"]),
    "credits": (["-DMESSAGES=2"], ["-DMESSAGES=3"]),
    "doorbell": (["-DPACKETS=3"], ["-DPACKETS=4"]),
    "rendezvous": ([], ["-DCHUNKS=3"]),
}
# A rule that takes more than the small bounds to break.
RULE_BOUNDS = {"connection": ["-Dmost=5"], "credits": [], "doorbell": [], "rendezvous": []}


def broken_rules(text):
    """The names behind `must be found:`, up to the full stop."""
    listed = re.search(r"must be found:(.*?)\.\n", text, re.DOTALL).group(1)
    return re.findall(r"[A-Z][A-Z_]+", listed)


def check(model, definitions, compiler):
    """(what is wrong, or nothing; states)."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["spin", "-a", *definitions, HERE / f"{model}.pml"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([compiler, "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=4096", "-o", "pan", "pan.c"], cwd=folder,
                       check=True)
        said = subprocess.run(["./pan", "-m1000000", "-w22", "-n"], cwd=folder, capture_output=True, text=True,
                              check=False).stdout
    if "max search depth too small" in said or "errors:" not in said:
        raise SystemExit(f"error: {model} {' '.join(definitions)} was not searched to its end:\n{said}")
    wrong = re.search(r"^pan:1: (.*)", said, re.MULTILINE)
    return wrong.group(1) if wrong else "", int(re.search(r"(\d+) states, stored", said).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="larger bounds, and broken rules; minutes")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("models", nargs="*", default=sorted(BOUNDS))
    asked = parser.parse_args()
    if not shutil.which("spin"):
        print("spin is not installed; util/run-tests.sh installs it")
        return 77
    bad = 0
    for model in asked.models or sorted(BOUNDS):
        began = time.monotonic()
        wrong, states = check(model, BOUNDS[model][asked.full], asked.cc)
        print(f"{model}: {wrong or 'holds'} ({states} states, {time.monotonic() - began:.1f} s)", flush=True)
        bad += bool(wrong)
        rules = broken_rules((HERE / f"{model}.pml").read_text(encoding="utf-8")) if asked.full else []
        for rule in rules:
            wrong, states = check(model, RULE_BOUNDS[model] + [f"-D{rule}"], asked.cc)
            print(f"  without {rule}: {'found: ' + wrong[:60] if wrong else 'NOT FOUND'} ({states} states)", flush=True)
            bad += not wrong
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
