# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_perf --pairs: each pair moves its own bytes, which are verified, with one thread and with several.

Usage: perf_pairs.py GAUDI-PERF FLIP-LIBRARY
"""

import csv
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

PERF, FLIP = sys.argv[1:3]
HANG = 60  # s: more than anything here takes
PORT = str(20000 + os.getpid() % 12000)  # below those that the kernel gives to connections
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gaudi-pairs-", dir="/dev/shm"))
ENVIRONMENT = {**os.environ, "HLSIM_DIR": str(WORK)}
PAIRS, ITERATIONS = 4, 3
ROUNDING = 1e-6


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def start(*options, environment=None):
    return subprocess.Popen([PERF, "--port", PORT, *map(str, options)], env=environment or ENVIRONMENT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    """Its exit code, what it printed and what it complained of."""
    try:
        printed, complaint = process.communicate(timeout=HANG)
    finally:
        process.kill()
    return process.returncode, printed, complaint


def both_sides(server_options, client_options, environment=None):
    server = start(*server_options)
    client = end(start(*client_options, "127.0.0.1", environment=environment))
    return end(server), client


def measure(memory, *options):
    """What the client prints of a verified run, in which nothing goes wrong."""
    chosen = ("--pairs", PAIRS, "--iters", ITERATIONS, "--warmup", 1, "--check", *options)
    server, client = both_sides(("--memory", memory[0]), ("--memory", memory[1], *chosen))
    expect(server[0] == 0 and client[0] == 0, f"{memory}, {chosen}: {server}, {client}")
    return client[1]


def check_pairs(result, what):
    """The provider counts bytes of each pair, and the pairs' rates fit those of all."""
    pairs = result["pairs"]
    expect(len(pairs) == PAIRS, f"{what}: a line for each pair: {pairs}")
    expect(result["path"] and all(pair["path"] == result["path"] for pair in pairs), f"{what}: the paths: {result}")
    expect(result["iterations"] == PAIRS * ITERATIONS, f"{what}: all pairs' operations: {result}")
    for rate in ("megabytes_per_second", "messages_per_second"):
        slowest = min(pair[rate] for pair in pairs)
        # All of them together take at least as long as the slowest.
        expect(0 < result[rate] <= PAIRS * slowest * (1 + ROUNDING), f"{what}: {rate} of all: {result}")


def check_runs():
    """Every operation with few bytes and many, of host and device memory, with fewer threads than pairs and as many."""
    for operation in ("send", "tagged", "write", "read"):
        for memory, size, threads in ((("host", "host"), "64K", PAIRS), (("device:0", "device:1"), "3K", 3)):
            options = ("--op", operation, "--threads", threads, "--size", size, "--json")
            document = json.loads(measure(memory, *options))
            expect(document["plan"]["threads"] == threads, f"{document['plan']}")
            check_pairs(document["results"][0], f"{memory}, {options}")


def check_csv():
    options = ("--threads", 2, "--bidirectional", "--duration", "0.02", "--csv")
    row, = csv.DictReader(measure(("host", "device:0"), *options).splitlines())
    expect((row["pairs"], row["threads"]) == (str(PAIRS), "2"), f"{row}")
    expect(int(row["count"]) % (PAIRS * ITERATIONS) == 0, f"whole rounds of all pairs: {row}")
    low, high = float(row["min_pair_MB_per_s"]), float(row["max_pair_MB_per_s"])
    expect(0 < low <= high and float(row["MB_per_s"]) <= PAIRS * low + 0.01, f"{row}")


def check_table():
    table = measure(("host", "host"), "--threads", 2, "--size", "1M")
    expect("4 pairs at once, 2 threads on each side" in table, table)
    expect(all(len(line) <= 80 for line in table.splitlines()), f"no wider than 80 columns: {table}")


def check_verification():
    """A wrong byte in the memory of one pair is found in that one, whichever it is. Returns what was tried."""
    options = ("--op", "read", "--size", "64K", "--threads", PAIRS)
    if json.loads(measure(("host", "host"), *options, "--json"))["results"][0]["path"] != "cma":
        return "no wrong bytes, as one process may not read another's memory here"
    found = set()
    for place in range(PAIRS):
        flip = {"LD_PRELOAD": FLIP, "GAUDI_FLIP_BUFFERS": PAIRS, "GAUDI_FLIP_PLACE": place, "GAUDI_FLIP_LENGTH": 65536}
        environment = {**ENVIRONMENT, **{name: str(value) for name, value in flip.items()}}
        server, client = both_sides((), ("--pairs", PAIRS, "--iters", 2, "--warmup", 1, "--check", *options), environment)
        expect(server[0] == 1 and client[0] == 1, f"a wrong byte ends both sides: {server}, {client}")
        found |= {pair for pair in range(PAIRS) if f"WRONG DATA: read of 65536 bytes, pair {pair}," in client[2]}
    expect(found == set(range(PAIRS)), f"wrong bytes were found in the pairs {found} only")
    return "a wrong byte is found in each of them"


def threads_of(process):
    """The threads of the tool itself; those of the provider have names of their own."""
    names = pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm")
    try:
        return sum(name.read_text(encoding="utf-8").strip() == "gaudi_perf" for name in names)
    except FileNotFoundError:  # one has just ended
        return 0


def check_threads():
    """So many threads as asked for; and when the peer is killed all of them end."""
    server = start()
    client = start("--pairs", PAIRS, "--threads", 3, "--duration", 3600, "127.0.0.1")
    limit = time.monotonic() + HANG
    while threads_of(server) != 3 or threads_of(client) != 3:
        expect(time.monotonic() < limit and client.poll() is None, "three threads on each side")
        select.select([], [], [], 0.02)
    client.kill()
    client.communicate()
    code, _, complaint = end(server)
    expect(code == 1 and len(complaint.splitlines()) == 1, f"the server, whose client was killed: {code}, {complaint}")


def main():
    check_runs()
    check_csv()
    check_table()
    verified = check_verification()
    check_threads()
    print(f"pairs and threads: all as expected; {verified}")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
