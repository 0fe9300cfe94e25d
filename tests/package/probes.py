# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The static probes: the library has those that the man page documents, each a nop, and gdb finds in them what a run did.

Usage: probes.py LIBRARY MAN-PAGE GAUDI-PERF
Skips (77) without readelf or gdb, or where gdb may not trace.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY, PAGE, PERF = sys.argv[1:4]
SKIP, HANG = 77, 100
PORT = str(20000 + os.getpid() % 10000)
SIZE, COUNT = 300000, 5
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gaudi-probes-", dir="/dev/shm"))
ENVIRONMENT = {**os.environ, "HLSIM_DIR": str(WORK / "devices"), "FI_GAUDI_IPC": "off",
               "FI_GAUDI_COPY_TABLE": "off"}
TYPES = {"u64": "8", "s32": "-4"}
NOP = 0x90


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def documented():
    """{probe: [(type, argument)]} of the man page."""
    text = pathlib.Path(PAGE).read_text(encoding="utf-8")
    return {name: [tuple(word.split()) for word in arguments.split(", ")]
            for name, arguments in re.findall(r"^\.B gaudi:(\w+)\((.*)\)$", text, re.MULTILINE)}


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=True).stdout


def built():
    """[(probe, address, ["SIZE@PLACE" of each argument])]: one for each place in the code."""
    notes = re.findall(r"Provider: gaudi\s+Name: (\w+)\s+Location: (0x\w+), .*\s+Arguments: (.*)",
                       output_of("readelf", "-nW", LIBRARY))
    return [(name, int(address, 16), arguments.split()) for name, address, arguments in notes]


def byte_at(address):
    """Of the library's code, which starts at other offsets in the file than in memory."""
    for line in output_of("readelf", "-lW", LIBRARY).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            offset, start, _, size = (int(word, 16) for word in words[1:5])
            if start <= address < start + size:
                return pathlib.Path(LIBRARY).read_bytes()[offset + address - start]
    return None


def check_notes(pages):
    notes = built()
    expect({name for name, _, _ in notes} == set(pages), f"documented {sorted(pages)}, built {sorted(notes)}")
    for name, address, arguments in notes:
        sizes = [argument.split("@")[0] for argument in arguments]
        expect(sizes == [TYPES[kind] for kind, _ in pages[name]], f"arguments of {name}: {arguments}")
        expect(byte_at(address) == NOP, f"{name} at {address:#x} is no nop")
    # Whether a message was unexpected is a constant of each of the two places.
    constants = {arguments[-1].split("@")[1].strip("$") for name, _, arguments in notes if name == "match"}
    expect(constants == {"0", "1"}, f"match: unexpected is {constants}")


def gdb_script(pages):
    """Prints "probe NAME value..." for each probe that is passed."""
    lines = ["set pagination off", "set breakpoint pending on", "set confirm off"]
    for name, arguments in pages.items():
        places = " ".join("%ld" if kind == "u64" else "%d" for kind, _ in arguments)
        values = ", ".join(f"$_probe_arg{i}" for i in range(len(arguments)))
        lines += [f"break -probe-stap gaudi:{name}", "commands", "silent", f'printf "probe {name} {places}\\n", {values}',
                  "continue", "end"]
    script = WORK / "script"
    script.write_text("\n".join([*lines, "run", ""]), encoding="utf-8")
    return script


def passed(pages, *options):
    """{probe: [{argument: value}]} of a client of gaudi_perf, whose other side is not traced."""
    common = [PERF, "--port", PORT, "--timeout", "60"]
    with subprocess.Popen([*common, "--memory", "device:0"], env=ENVIRONMENT, stdout=subprocess.DEVNULL) as server:
        try:
            done = subprocess.run(
                ["gdb", "-q", "-nx", "-batch", "-x", gdb_script(pages), "--args", *common, "--memory", "device:1", "--size",
                 str(SIZE), "--iters", str(COUNT), "--warmup", "1", *options, "127.0.0.1"],
                env=ENVIRONMENT, capture_output=True, text=True, timeout=HANG, check=False)
        finally:
            server.kill()
    if re.search(r"ptrace: Operation not permitted|Could not trace", done.stderr):
        print("gdb may not trace here")
        sys.exit(SKIP)
    seen = {name: [] for name in pages}
    for name, values in re.findall(r"^probe (\w+)((?: -?\d+)+)$", done.stdout, re.MULTILINE):
        seen[name].append(dict(zip([argument for _, argument in pages[name]], map(int, values.split()))))
    expect(seen["send"] or seen["write"] or seen["read"], f"gdb saw no probe: {done.stdout}{done.stderr}")
    return seen


def check_transfers(seen):
    started = {one["id"]: one["length"] for one in seen["transfer_start"]}
    expect(started and seen["transfer_complete"] and seen["transfer_issue"], f"transfers: {seen}")
    for one in seen["transfer_complete"]:
        expect(one["error"] == 0 and started.get(one["id"]) == one["length"], f"end of a transfer: {one}")
    for one in seen["transfer_issue"]:
        expect(0 < one["issued"] <= one["length"] == started.get(one["id"]), f"part of a transfer: {one}")


def check_copies(seen):
    """Each message is copied from the device, and each that came to it, where nothing measures the device."""
    def copied(direction):
        return sum(one["length"] for one in seen["copy_start"] if one["direction"] == direction)

    def messages(name):
        return sum(one["length"] == SIZE and one.get("result", 0) == 0 for one in seen[name])

    expect(copied(1) == SIZE * messages("send"), f"copied from the device: {copied(1)} bytes")
    expect(copied(0) >= SIZE * messages("match"), f"copied to the device: {copied(0)} bytes")
    tickets = {one["ticket"] for one in seen["copy_start"]}
    expect(seen["copy_complete"] and all(one["ticket"] in tickets and one["result"] == 0 for one in seen["copy_complete"]),
           f"ends of copies: {seen['copy_complete']}")


def check_messages(pages):
    seen = passed(pages, "--op", "tagged")
    for name in ("send", "match"):
        lengths = [one["length"] for one in seen[name]]
        expect(lengths.count(SIZE) > COUNT, f"{name} of {SIZE} bytes: {seen[name]}")
    expect({one["target"] for one in seen["send"]} == {one["source"] for one in seen["match"]} == {0}, "the peer is 0")
    expect(all(one["unexpected"] in (0, 1) for one in seen["match"]), f"{seen['match']}")
    expect([(one["peer"], one["shm"]) for one in seen["connection_up"]] == [(0, 0)], f"{seen['connection_up']}")
    expect(seen["registration"] and all(one["length"] > 0 and one["result"] == 0 for one in seen["registration"]),
           f"registrations: {seen['registration']}")
    check_transfers(seen)
    check_copies(seen)


def check_rma(pages, operation):
    seen = passed(pages, "--op", operation)
    done = [one for one in seen[operation] if one["length"] == SIZE and one["target"] == 0 and one["result"] == 0]
    expect(len(done) > COUNT, f"{operation} of {SIZE} bytes: {seen[operation]}")


def main():
    missing = [tool for tool in ("readelf", "gdb") if not shutil.which(tool)]
    if missing:
        print(f"not installed: {missing} (packages binutils and gdb)")
        sys.exit(SKIP)
    pages = documented()
    expect(len(pages) > 10, f"probes of the man page: {pages}")
    check_notes(pages)
    check_messages(pages)
    check_rma(pages, "write")
    check_rma(pages, "read")
    print(f"{len(pages)} probes: all as documented")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
