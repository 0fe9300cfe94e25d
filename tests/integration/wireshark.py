# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The Wireshark dissector, with tshark on what gaudi_perf sends over the core tcp while this test captures it.

Usage: wireshark.py DISSECTOR GAUDI-PERF
Skips (77) without tshark, or without the right to capture.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DISSECTOR, PERF = sys.argv[1:3]
SKIP, HANG = 77, 60
PORT = "18781"


def isolate():
    """Goes on in a network namespace of its own, where that can be had: others' packets on the loopback interface are
    not this test's, and what tests of hostile peers send there is malformed."""
    inside = "ip link set lo up && exec \"$@\""
    if "ISOLATED" in os.environ or subprocess.run(["unshare", "-rn", "sh", "-c", "ip link set lo up"], stderr=subprocess.DEVNULL,
                                                  check=False).returncode != 0:
        return
    os.environ["ISOLATED"] = "yes"
    os.execvp("unshare", ["unshare", "-rn", "sh", "-c", inside, "sh", sys.executable, "-B", *sys.argv])


isolate()
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gaudi-wireshark-", dir="/dev/shm"))
CAPTURE = WORK / "capture"
ENVIRONMENT = {**os.environ, "HLSIM_DIR": str(WORK / "devices"), "FI_GAUDI_IPC": "off", "FI_GAUDI_CORE": "tcp"}


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def dissected(*options):
    """Lines of tshark's output. Lua's errors are in it too."""
    done = subprocess.run(["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(CAPTURE), *options], capture_output=True,
                          text=True, timeout=HANG, check=False)
    expect(done.returncode == 0 and "lua" not in done.stderr.lower(), f"tshark {options}: {done.stderr}")
    return done.stdout.splitlines()


def fields(*names):
    """{name: all values in the capture}. A frame may hold several packets."""
    lines = dissected("-Y", "gaudi", "-T", "fields", "-E", "aggregator=;",
                      *(word for name in names for word in ("-e", name)))
    columns = zip(*(line.split("\t") for line in lines))
    return {name: [value for cell in column for value in cell.split(";") if value] for name, column in zip(names, columns)}


def run_pair(*options, **settings):
    environment = ENVIRONMENT | settings
    server = subprocess.Popen([PERF, "--port", PORT], env=environment, stdout=subprocess.DEVNULL)
    try:
        subprocess.run([PERF, "--port", PORT, *options, "127.0.0.1"], env=environment, stdout=subprocess.DEVNULL, check=True,
                       timeout=HANG)
        expect(server.wait(HANG) == 0, "the server of gaudi_perf")
    finally:
        server.kill()
        server.wait()


def capture(work):
    """What goes over the loopback interface during `work`, in CAPTURE."""
    with subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-f", "tcp", "-B", "64", "-w", str(CAPTURE)], stderr=subprocess.PIPE,
                          text=True) as recorder:
        try:
            for line in recorder.stderr:
                if line.startswith("File: "):
                    break
            else:
                print("no right to capture on the loopback interface")
                sys.exit(SKIP)
            work()
        finally:
            recorder.terminate()


def check():
    found = fields("gaudi.kind", "gaudi.rts.length", "gaudi.segment.length", "gaudi.header.connection",
                   "gaudi.hello.connection", "gaudi.hello.ipv4", "ip.addr", "_ws.col.Info")
    kinds = collections.Counter(found["gaudi.kind"])
    expect(kinds["eager"] >= 20, f"short messages: {kinds}")
    expect(kinds["rts"] >= 5 and kinds["fin"] >= 5, f"long messages: {kinds}")
    expect(not any(kind.startswith("kind ") for kind in kinds), f"kinds that are none: {kinds}")
    expect(kinds["ask_rails"] >= 1 and kinds["rail_names"] >= 1, f"what rails ask for: {kinds}")
    expect("300000" in found["gaudi.rts.length"], f"lengths of long messages: {set(found['gaudi.rts.length'])}")
    expect("300000" in found["gaudi.segment.length"], f"their segments: {set(found['gaudi.segment.length'])}")
    infos = found["_ws.col.Info"]
    expect(any(re.search(r"eager tag=0x\w+ \+ 100 bytes", info) for info in infos), f"short messages in the list: {infos[:9]}")
    expect(any(re.search(r"rts tag=0x\w+ operation=0x\w+ length=\d+$", info) for packet in infos for info in packet.split(" | ")),
           f"long messages in the list, each operation once: {infos[:9]}")
    addresses, hosts = set(found["gaudi.hello.ipv4"]), set(found["ip.addr"])
    expect(addresses and addresses <= hosts, f"addresses in hellos {addresses} not among those of the hosts {hosts}")
    # A connection's packets bear the names that its hellos gave.
    names, used = set(found["gaudi.hello.connection"]), set(found["gaudi.header.connection"])
    expect(used and used <= names, f"names of connections {used} not among those of hellos {names}")
    wrong = dissected("-Y", "gaudi.malformed || (gaudi && _ws.malformed) || gaudi.version_mismatch")
    expect(not wrong, f"malformed packets: {wrong[:3]}")
    errors = [line.strip() for line in dissected("-V") if "Lua Error" in line]
    expect(not errors, f"packets that the dissector fails on: {errors[:1]}")


def main():
    if not shutil.which("tshark"):
        print("tshark is not installed")
        sys.exit(SKIP)

    def exchange():
        run_pair("--op", "tagged", "--size", "100", "--iters", "20")
        run_pair("--op", "tagged", "--size", "300000", "--iters", "5")
        run_pair("--op", "tagged", "--size", "300000", "--iters", "5", FI_GAUDI_RAILS="2", FI_GAUDI_RAIL_CHUNK="65536")

    capture(exchange)
    check()
    print("the dissector: all as expected")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
