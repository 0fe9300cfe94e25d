# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_perf says why long messages went their way: each is counted once, and short ones have no reason.

Usage: perf_reasons.py GAUDI-PERF
"""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PERF = sys.argv[1]
HANG = 60  # s: more than anything here takes
PORT = str(20000 + os.getpid() % 12000)  # below those that the kernel gives to connections
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gaudi-reasons-", dir="/dev/shm"))
ENVIRONMENT = {**os.environ, "HLSIM_DIR": str(WORK)}
WARMUP, ITERATIONS = 1, 4
# A ping and its answer, and a message of the stream.
LONG_MESSAGES = 3 * (WARMUP + ITERATIONS)


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def measure(*options, memory=("host", "host"), settings=()):
    """What the client prints."""
    environment = {**ENVIRONMENT, **dict(settings)}
    with subprocess.Popen([PERF, "--port", PORT, "--memory", memory[0]], env=environment,
                          stdout=subprocess.DEVNULL) as server:
        try:
            command = [PERF, "--port", PORT, "--memory", memory[1], "--iters", str(ITERATIONS), "--warmup", str(WARMUP),
                       *options, "127.0.0.1"]
            client = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=False)
            expect(client.returncode == 0 and server.wait(HANG) == 0, f"{options}: {client.stderr}")
        finally:
            server.kill()
    return client.stdout


def result(*options, **how):
    return json.loads(measure("--json", *options, **how))["results"][0]


def main():
    found = result("--size", "64K").get("path_reasons", {})
    expect(sum(reason["transfers"] for reason in found.values()) == LONG_MESSAGES, f"long messages: {found}")
    found = result("--size", "64K", "--pairs", "2").get("path_reasons", {})
    expect(sum(reason["transfers"] for reason in found.values()) == 2 * LONG_MESSAGES, f"those of two pairs: {found}")
    expect("path_reasons" not in result("--size", "64"), "short messages have a reason")

    staged = {"memory": ("device:0", "device:1"), "settings": {"FI_GAUDI_RNDV": "staged"}}
    found = result("--size", "64K", **staged)
    expect(found["path"] == "staged" and list(found["path_reasons"]) == ["staging_is_chosen"], f"as JSON: {found}")
    row, = csv.DictReader(measure("--size", "64K", "--csv", **staged).splitlines())
    expect(row["path_reasons"] == "staging_is_chosen", f"as CSV: {row}")
    table = measure("--size", "64K", **staged)
    expect(table.splitlines()[-1] == "staged: FI_GAUDI_RNDV=staged", f"below the table: {table}")
    print("reasons for paths: all as expected")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
