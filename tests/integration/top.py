# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_top as a command, on a pair of processes that transfer and then hang: what it prints, writes and draws.

Usage: top.py GAUDI-TOP GAUDI-PERF
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

TOOL, PERF = sys.argv[1:3]
HANG = 60  # s: more than anything here takes
WORK = tempfile.TemporaryDirectory(prefix="gaudi-top-", dir="/dev/shm")
os.environ["HLSIM_DIR"] = WORK.name


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def run(*options):
    return subprocess.run([TOOL, *options], capture_output=True, text=True, timeout=HANG, check=False)


def processes(*options):
    done = run("--json", "--once", "--interval", "0.05", *options)
    expect(done.returncode == 0, f"gaudi_top {options}: {done.stderr}")
    return json.loads(done.stdout)["processes"]


def counters(pid):
    return processes("--pid", str(pid))[0]["domains"][0]["counters"]


def wait_for(condition, what):
    end = time.monotonic() + HANG
    while not condition():
        expect(time.monotonic() < end, f"{what}: not within {HANG} s")
        select.select([], [], [], 0.05)


def check_options():
    for options in (["--no-such-option"], ["--interval", "0"], ["--pid", "x"], ["--pid", "0"], ["--count", "0"],
                    ["--once", "--count", "2"], ["--json", "--openmetrics", "x"], ["4711"]):
        bad = run(*options)
        expect(bad.returncode == 2 and len(bad.stderr.splitlines()) == 2 and "--help" in bad.stderr,
               f"{options}: one line and a hint, not {bad.returncode}, {bad.stderr}")
    help_text = run("--help")
    expect(help_text.returncode == 0 and all(len(line) <= 80 for line in help_text.stdout.splitlines()), "--help")
    expect(re.fullmatch(r"gaudi_top \d+\.\d+\.\d+\n", run("--version").stdout), "--version")


def check_refusals():
    own = run("--once", "--pid", str(os.getpid()))
    expect(own.returncode == 1 and "it shows no counters" in own.stderr, f"a process without counters: {own.stderr}")
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    expect(f"no process {gone.pid}" in run("--once", "--pid", str(gone.pid)).stderr, "a process that is gone")


def check_hanging(pid):
    """A stopped process says what it had counted, and no rate."""
    first, second = counters(pid), counters(pid)
    expect(first == second and first["eager_ops"] > 0, "the counters of a process that is stopped")
    rates = processes("--pid", str(pid))[0]["domains"][0]["per_second"]
    expect(set(rates.values()) == {0.0}, f"rates of a process that is stopped: {rates}")
    text = run("--once", "--interval", "0.05").stdout
    expect(re.search(rf"^ *{pid} gaudi_perf ", text, re.MULTILINE), f"as text: {text}")
    expect(all(len(line) <= 80 for line in text.splitlines()), "80 columns")


def check_latencies(pid):
    """Each kind of operation that gaudi_perf did: some are timed, all that are timed are in a bucket."""
    done = {found["operation"]: found for found in processes("--pid", str(pid))[0]["latencies"] if found["count"] > 0}
    expect("message" in done, f"latencies: {done}")
    for name, found in done.items():
        expect(sum(bucket["count"] for bucket in found["buckets"]) == found["count"], f"buckets of {name}: {found}")
        expect(found["sum_ns"] > 0, f"times of {name}: {found}")
    eager = counters(pid)["eager_ops"]
    expect(done["message"]["count"] < eager, f"some of {eager}, not all: {done['message']['count']}")
    text = run("--once", "--interval", "0.05").stdout
    expect(re.search(r"^LATENCY .*P50.*\nmessage +\d", text, re.MULTILINE), f"as text: {text}")


def check_metrics(pid):
    path = pathlib.Path(WORK.name, "gaudi.prom")
    done = run("--openmetrics", str(path), "--once")
    expect(done.returncode == 0 and done.stdout == "", f"--openmetrics: {done.stderr}")
    text = path.read_text()
    value = re.search(rf'^gaudi_fi_domain_eager_ops_total{{pid="{pid}",command="gaudi_perf",.*}} (\d+)$', text,
                      re.MULTILINE)
    expect(value and int(value[1]) == counters(pid)["eager_ops"], "the metric of a counter")
    expect(f'gaudi_fi_domain_latency_seconds_bucket{{pid="{pid}",' in text, "the metric of a histogram")
    try:
        from prometheus_client.openmetrics import parser
    except ImportError:
        print("python3-prometheus-client is not installed: the format is not checked")
    else:
        families = list(parser.text_string_to_metric_families(text))
        expect(len(families) > 30, "Prometheus's own parser reads it")
    path.unlink()
    path.mkdir()
    failed = run("--openmetrics", str(path), "--once")
    expect(failed.returncode == 1 and f"failed to write {path}" in failed.stderr, "a file that cannot be written")


def check_screen(pid):
    """On a terminal of 80x24: it is taken over, drawn on, and given back as it was."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(TOOL, [TOOL, "--interval", "0.05"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = b""

    def read():
        nonlocal seen
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # the other side is closed
                return True
        return False

    def shows(text):
        read()
        return text in seen

    wait_for(lambda: shows(b"\x1b[?1049h") and shows(str(pid).encode()) and shows(b"of the last"), "the screen")
    os.write(terminal, b"q")
    wait_for(read, "the end by q")
    expect(os.waitpid(child, 0)[1] == 0, "the exit status after q")
    expect(seen.rstrip().endswith(b"\x1b[?1049l"), "the screen is given back")


def main():
    check_options()
    check_refusals()
    server = subprocess.Popen([PERF, "--port", "18761"], stdout=subprocess.DEVNULL)
    client = subprocess.Popen([PERF, "--port", "18761", "--size", "64", "--duration", "3600", "127.0.0.1"],
                              stdout=subprocess.DEVNULL)
    try:
        # The first operation is timed and not all that follow: with one alone, all of them would be.
        wait_for(lambda: any(p["pid"] == client.pid and p["domains"] and p["domains"][0]["counters"]["eager_ops"] > 1000
                             for p in processes()), "the client transfers")
        for process in (server, client):
            process.send_signal(signal.SIGSTOP)
        check_hanging(client.pid)
        check_latencies(client.pid)
        check_metrics(client.pid)
        check_screen(client.pid)
    finally:
        for process in (server, client):
            process.kill()
            process.wait()
    print("gaudi_top: all as expected")


main()
