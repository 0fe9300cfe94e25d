#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs MPICH's own tests over this provider and over tcp;ofi_rxm, and says which fail over this one only.

    run.py MPICH-FOLDER [--lists NAME,...] [--only REGEX] [--providers NAME,...] [--log FOLDER]

MPICH-FOLDER is what build.sh prints. Exit status: 0 nothing fails over gaudi only, 1 something does, 2 bad option.
"""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import testlists

DIRECTORIES = ["pt2pt", "coll", "rma", "comm", "datatype", "threads"]
PROVIDER, REFERENCE = "gaudi", "tcp;ofi_rxm"
# Beyond the time limit of a test, which mpiexec itself keeps.
GRACE = 30


class Skipped(Exception):
    pass


def check_runnable(test, options):
    if test.expected_failure:
        raise Skipped(f"MPICH expects it to fail ({test.expected_failure})")
    if test.memory > options.memory:
        raise Skipped(f"wants {test.memory:g} GB of memory")


def fit_to_machine(test, options):
    """As runtests does with -maxnp and MPITEST_TIMEOUT_MULTIPLIER: MPICH spins while it waits, so a test of more ranks than
    CPUs takes many times as long as it works."""
    test.ranks = min(test.ranks, options.ranks)
    test.time_limit = int(test.time_limit * options.patience)


def environment_for(provider, test):
    environment = dict(os.environ, FI_PROVIDER=provider, MPIEXEC_TIMEOUT=str(test.time_limit))
    # Else ranks on one host use MPICH's own shared memory, and libfabric sees nothing.
    environment["MPIR_CVAR_NOLOCAL"] = "1"
    environment.update(test.environment)
    return environment


def end_group(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        time.sleep(1)


def execute(command, folder, environment, limit):
    """Status and output; the status is None where the limit was reached. The ranks are ended in any case."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        end_group(process)
        output, _ = process.communicate()
        return None, output


def run_test(mpich, provider, test):
    """Why it failed, or an empty string, and what it printed."""
    folder = mpich / "tests" / test.folder
    if not (folder / test.program).is_file():
        return "was not built", ""
    command = [str(mpich / "bin/mpiexec"), "-n", str(test.ranks), *test.mpiexec, f"./{test.program}", *test.arguments]
    status, output = execute(command, folder, environment_for(provider, test), test.time_limit + GRACE)
    if status is None or "APPLICATION TIMED OUT" in output:
        return f"did not end within {test.time_limit} s", output
    return testlists.judge(test, status, output), output


def check_provider(mpich, provider):
    """That MPICH takes it, and not another way to communicate."""
    test = testlists.Test("pt2pt", "sendself", ranks=1, environment={"MPIR_CVAR_DEBUG_SUMMARY": "1"})
    _, output = run_test(mpich, provider, test)
    if f"provider: {provider}, score" not in output:
        sys.exit(f"MPICH does not run over {provider}:\n{output}")


def log_failure(log, provider, number, test, reason, output):
    if log:
        log.mkdir(parents=True, exist_ok=True)
        path = log / f"{re.sub('[^a-z]+', '_', provider)}-{number}-{test.program}.log"
        path.write_text(f"{test.name}\n{reason}\n\n{output}")


def run_all(mpich, provider, tests, log):
    check_provider(mpich, provider)
    failures = {}
    for number, test in enumerate(tests, 1):
        began = time.monotonic()
        reason, output = run_test(mpich, provider, test)
        if reason:
            failures[test.name] = reason
            log_failure(log, provider, number, test, reason, output)
        print(f"{provider} {number}/{len(tests)} {test.name}: {reason or 'passed'} ({time.monotonic() - began:.1f} s)",
              flush=True)
    return failures


def print_table(tests, skipped, failures):
    print(f"\n{'directory':<10} {'tests':>6} {'skipped':>8}" + "".join(f" {name + ' failed':>19}" for name in failures))
    for directory in [name for name in DIRECTORIES if any(t.directory == name for t in tests)]:
        mine = [test for test in tests if test.directory == directory]
        counts = [sum(test.name in failed for test in mine) for failed in failures.values()]
        left_out = sum(test.directory == directory for test, _ in skipped)
        print(f"{directory:<10} {len(mine):>6} {left_out:>8}" + "".join(f" {count:>19}" for count in counts))


def print_list(title, failures):
    print(f"\n{title}: {len(failures)}")
    for name, reason in failures.items():
        print(f"  {name}: {reason}")


def compare(failures):
    """The failures over this provider that the reference does not have."""
    ours, theirs = failures.get(PROVIDER, {}), failures.get(REFERENCE, {})
    print_list("failures over both", {name: why for name, why in ours.items() if name in theirs})
    print_list(f"failures over {REFERENCE} only", {name: why for name, why in theirs.items() if name not in ours})
    alone = {name: why for name, why in ours.items() if name not in theirs}
    print_list(f"failures over {PROVIDER} only", alone)
    return alone


def select(options):
    tests, skipped = [], []
    for directory in options.directories.split(","):
        for test in testlists.read_folder(options.mpich / "tests", directory, options.lists.split(",")):
            if not re.search(options.only, test.name):
                continue
            try:
                check_runnable(test, options)
                fit_to_machine(test, options)
                tests.append(test)
            except Skipped as reason:
                skipped.append((test, str(reason)))
    return tests, skipped


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mpich", type=pathlib.Path)
    parser.add_argument("--directories", default=",".join(DIRECTORIES))
    parser.add_argument("--lists", default="testlist,testlist.dtp", help="of each directory; testlist.cvar has 859 more of coll")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose name, arguments and all, has it")
    parser.add_argument("--providers", default=f"{PROVIDER},{REFERENCE}")
    parser.add_argument("--memory", type=float, default=6, metavar="GB", help="tests that say they want more are left out")
    parser.add_argument("--ranks", type=int, default=4, help="tests of more are run with so many")
    parser.add_argument("--patience", type=float, default=1, metavar="TIMES", help="multiplies the tests' time limits")
    parser.add_argument("--log", type=pathlib.Path, help="a folder for what failing tests printed")
    return parser.parse_args()


def main():
    options = parse_options()
    options.mpich = options.mpich.resolve()
    tests, skipped = select(options)
    if not tests:
        print("no such test", file=sys.stderr)
        return 2
    failures = {provider: run_all(options.mpich, provider, tests, options.log) for provider in options.providers.split(",")}
    print_list("skipped", {test.name: reason for test, reason in skipped})
    print_table(tests, skipped, failures)
    return 1 if compare(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
