# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_perf --stalls: a side that is stopped now and then is in the way of everything for as long as that.

Usage: perf_stalls.py GAUDI-PERF
"""

import csv
import json
import os
import signal
import subprocess
import sys
import time

PERF = sys.argv[1]
HANG = 60  # s: more than anything here takes
PORT = str(20000 + os.getpid() % 12000)  # below those that the kernel gives to connections
STOPPED, BETWEEN = 0.3, 0.1  # s


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def stop_and_go(server):
    """For how long it was stopped at least, in microseconds."""
    server.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    time.sleep(STOPPED)
    stopped = time.monotonic() - begin
    server.send_signal(signal.SIGCONT)
    time.sleep(BETWEEN)
    return stopped * 1e6


def stream(*options, stops=False):
    """What the client prints, and the shortest stop of the server meanwhile."""
    with subprocess.Popen([PERF, "--port", PORT], stdout=subprocess.DEVNULL) as server:
        try:
            command = [PERF, "--port", PORT, "--size", "64K", *options, "127.0.0.1"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
                shortest = float("inf")
                while stops and client.poll() is None:
                    shortest = min(shortest, stop_and_go(server))
                printed = client.communicate(timeout=HANG)[0]
            expect(client.returncode == 0 and server.wait(HANG) == 0, f"{options} ends with {client.returncode}")
        finally:
            server.send_signal(signal.SIGCONT)
            server.kill()
    return printed, shortest


def main():
    # Longer than several stops: one of them at least begins and ends while it streams.
    printed, stopped = stream("--stalls", "--duration", "2", "--json", stops=True)
    stall = json.loads(printed)["results"][0]["longest_stall_us"]
    # What was on its way then may have finished after it.
    expect(stall > stopped / 2, f"nothing finished for {stall} us, but it was stopped for {stopped} us")

    printed, _ = stream("--stalls", "--csv")
    row, = csv.DictReader(printed.splitlines())
    expect(float(row["longest_stall_us"]) > 0, f"as CSV: {row}")
    expect("64 KiB: no operation finished for up to " in stream("--stalls")[0], "the table says nothing of it")
    expect("longest_stall_us" not in stream("--json")[0], "stalls that nobody asked for")
    print("stalls are told")


main()
