# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_perf says why long messages went their way: each is counted once, short ones have no reason, and gaudi_info has told
it before.

Usage: perf_reasons.py GAUDI-PERF GAUDI-INFO
"""

import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PERF, INFO = sys.argv[1:3]
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


def expected_by_info(settings):
    """The reason between each two kinds of memory."""
    done = subprocess.run([INFO, "--json"], env={**ENVIRONMENT, **settings}, capture_output=True, text=True, timeout=HANG,
                          check=True)
    messages = json.loads(done.stdout)["messages"]
    reasons = {(one["from"], one["to"]): one["reason"] for one in messages}
    kinds = {"host": "host", "device:0": "Gaudi", "device:1": "Gaudi"}
    return {(a, b): reasons[kinds[a], kinds[b]] for a in kinds for b in kinds}


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

    for settings in {"FI_GAUDI_IPC": "off"}, {"FI_GAUDI_IPC": "off", "FI_GAUDI_RNDV": "write"}:
        told = expected_by_info(settings)
        for memory in ("host", "host"), ("device:0", "device:1"), ("host", "device:0"):
            found = set(result("--size", "64K", memory=memory, settings=settings)["path_reasons"])
            expect(found == {told[memory], told[memory[::-1]]}, f"{memory}, {settings}: {found}, gaudi_info told {told}")
    print("reasons for paths: all as expected")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
