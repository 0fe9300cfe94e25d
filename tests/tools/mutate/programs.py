# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Test programs, and what becomes of a mutant in them."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

# As the runtime has it.
MAX_MUTANTS = 1 << 20
# Memory that a mutant may take before it is stopped.
MAX_DATA = 4 << 30
# Of what the tests took without a mutant: nothing but a hang takes so much longer.
PATIENCE, AT_LEAST_S = 6, 10


class Program:
    """A test of ctest's, without the division of its cases over processes."""

    def __init__(self, name, command, environment):
        self.name, self.command, self.environment = name, command, environment
        self.reached = {}  # case: mutants' numbers
        self.took = {}  # case: seconds

    def run(self, filter_of_cases, limit, **environment):
        """(what ended it or None, the end of its output)"""
        command = list(self.command)
        if filter_of_cases:
            command = [c for c in command if not c.startswith("--gtest_filter")]
            command += ["--gtest_filter=" + ":".join(filter_of_cases), "--gtest_fail_fast"]
        return run(command, {**self.environment, **environment}, limit)

    def record(self):
        """One run without a mutant: which case comes by which."""
        with tempfile.TemporaryDirectory() as folder:
            file, remaining = pathlib.Path(folder, "reached"), pathlib.Path(folder, "reached.map")
            remaining.write_bytes(bytes(MAX_MUTANTS))
            began = time.monotonic()
            ended, output = self.run(None, 1800, GAUDI_MUTANT_REACHED=str(file))
            if ended:
                raise RuntimeError(f"{self.name} fails without a mutant: {ended}\n{output[-4000:]}")
            for line in file.read_text().splitlines() if file.exists() else []:
                case, took, *numbers = line.split()
                self.reached[case] = set(map(int, numbers))
                self.took[case] = int(took) / 1e6
            self.reached["*"] = {number for number, byte in enumerate(remaining.read_bytes()) if byte}
            self.took["*"] = time.monotonic() - began - sum(self.took.values())

    def cases_at(self, number):
        """Of GoogleTest; * is what runs outside of them, or a program that has none."""
        return [case for case, numbers in self.reached.items() if number in numbers]

    def limit(self, cases=None):
        took = sum(self.took.values()) if not cases or "*" in cases else self.took["*"] + sum(self.took[c] for c in cases)
        return AT_LEAST_S + PATIENCE * took


def limit_resources(limit):
    """A loop without end is seen by the CPU time that it takes, which no busy machine changes."""
    cpu = int(AT_LEAST_S / 3 + limit / 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA, MAX_DATA))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 10))


def ending_of(code):
    """None: it has passed."""
    if code == -signal.SIGXCPU:
        return "a hang that takes the CPU"
    return None if code == 0 else f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def run(command, environment, limit):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "TMPDIR": folder, **environment}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=lambda: limit_resources(limit))
        try:
            ended = ending_of(process.wait(limit))
        except subprocess.TimeoutExpired:
            ended = f"a hang of {limit:.0f} s"
        finally:
            # Children that were left behind as well.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        return ended, output.read().decode(errors="replace")


def failed_case(output):
    """The first that GoogleTest names, else the one that was running."""
    lines = output.splitlines()
    failed = [line.split()[3].rstrip(",") for line in lines if line.startswith("[  FAILED  ] ")]
    running = [line.split()[3] for line in lines if line.startswith("[ RUN      ] ")]
    return (failed or running[-1:] or [""])[0]


def shortened(command):
    """Of the simulator: most of what it finds, it finds in the first schedules; and nobody wants a failure drawn."""
    if pathlib.Path(command[0]).name != "sim":
        return command
    return [command[0], "--schedules", "2000", "--brief"]


def of_ctest(build_folder, names):
    """{name: Program} of tests that are called so, or so with a shard's number."""
    listed = subprocess.run(["ctest", "--test-dir", build_folder, "--show-only=json-v1"], check=True, capture_output=True, text=True)
    found = {}
    for test in json.loads(listed.stdout)["tests"]:
        name = test["name"].rstrip("0123456789").rstrip(".") if test["name"] not in names else test["name"]
        if name in names and name not in found:
            properties = {p["name"]: p["value"] for p in test.get("properties", [])}
            pairs = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
            environment = {k: v for k, v in pairs.items() if not k.startswith("GTEST_")}
            found[name] = Program(name, shortened(test["command"]), environment)
    return found
