# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_info on simulated Gaudis: what its JSON says, its exit status, and that it opens nothing unasked."""

import json
import os
import subprocess
import sys
import tempfile

TOOL, PROVIDERS, LIBRARY = sys.argv[1:4]
# Devices of its own: those that all processes of a user share may be in use by another test.
DEVICES = tempfile.TemporaryDirectory(prefix="gaudi-info-", dir="/dev/shm")


def run(*options, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FI_", "HLSIM_"))}
    environment.update(FI_PROVIDER_PATH=PROVIDERS, FI_GAUDI_HLTHUNK=LIBRARY, HLSIM_DIR=DEVICES.name,
                       HLSIM_DEVICES="2")
    environment.update({name: value for name, value in variables.items() if value is not None})
    for name in [name for name, value in variables.items() if value is None]:
        del environment[name]
    return subprocess.run([TOOL, *options], env=environment, capture_output=True, text=True, timeout=60, check=False)


def document(*options, **variables):
    done = run("--json", *options, **variables)
    return done.returncode, json.loads(done.stdout)


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


code, facts = document()
expect(code == 0 and "verdict" not in facts, "a plain listing")
expect([d["name"] for d in facts["devices"]] == ["simulated Gaudi2"] * 2, "two simulated devices")
expect([d["state"] for d in facts["devices"]] == ["free"] * 2, "both free: the listing opens none")
expect([d["owner_mode"] for d in facts["devices"]] == ["owner"] * 2, "the provider would own both")
expect([d["holders"] for d in facts["devices"]] == [[], []], "nobody holds them")
expect(facts["devices"][1]["hbm_free"] == facts["devices"][1]["hbm_total"] > 0, "memory")
expect(facts["software"]["provider_found"], "libfabric finds the provider")
given = {p["name"] for p in facts["parameters"] if p["given"]}
expect(given == {"FI_GAUDI_HLTHUNK"}, f"parameters that were given: {given}")

expect([d["copy_engine"] for d in facts["devices"]] == ["dma"] * 2, "their engines")

with tempfile.TemporaryDirectory(prefix="gaudi-info-", dir="/dev/shm") as others:
    code, facts = document(HLSIM_GENERATION="3", HLSIM_DIR=others)
    text = run(HLSIM_GENERATION="3", HLSIM_DIR=others)
expect([d["name"] for d in facts["devices"]] == ["simulated Gaudi3"] * 2, "two simulated Gaudi3s")
expect([d["copy_engine"] for d in facts["devices"]] == ["none"] * 2, "which do not copy")
expect(facts["devices"][0]["hbm_total"] == 127 << 30, "their memory")
expect("offers no copies" in text.stdout, "which do not copy, as text")

text = run(FI_GAUDI_CORE="tcp", FI_GAUDI_RNDV="staged").stdout
expect("Gaudi   to Gaudi   through staging buffers: FI_GAUDI_RNDV=staged\n" in text, f"the way of long messages: {text}")
expect(max(map(len, text.splitlines())) <= 80, "80 columns")

code, facts = document(FI_GAUDI_CORE="tcp", FI_GAUDI_RNDV="write")
expect(facts["software"]["core"] == "tcp", "the core that was chosen")
expect([p["value"] for p in facts["parameters"] if p["name"] == "FI_GAUDI_RNDV"] == ["write"], "a value given")

# Another process opens the second one, and closes it when its standard input ends.
HOLD = f"import ctypes; ctypes.CDLL('{LIBRARY}').hlthunk_open_by_module_id(1); print('open', flush=True); input()"
with subprocess.Popen([sys.executable, "-c", HOLD], env={**os.environ, "HLSIM_DIR": DEVICES.name, "HLSIM_DEVICES": "2"},
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
    expect(holder.stdout.readline() == "open\n", "another process opens a device")
    code, facts = document()
    text = run()
    holder.communicate("\n")
expect([d["owner_mode"] for d in facts["devices"]] == ["owner", "other process"], "one is taken")
expect([h["pid"] for h in facts["devices"][1]["holders"]] == [holder.pid], "by whom")
expect(f"process {holder.pid} ({facts['devices'][1]['holders'][0]['command']})\n" in text.stdout, "by whom, as text")

doctor = [("a bad parameter", 30, {"FI_GAUDI_RNDV": "x"}),
          ("a device that is not there", 30, {"FI_GAUDI_DEVICE": "0,5"}),
          ("a provider that is hidden", 31, {"FI_PROVIDER": "^gaudi"}),
          ("a library that is missing", 10, {"FI_GAUDI_HLTHUNK": "/no/such/library.so"})]
if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
    doctor.append(("a machine without an RDMA device", 20, {}))
for what, status, variables in doctor:
    code, facts = document("--doctor", **variables)
    expect(code == status == facts["verdict"]["code"], f"{what}: exit status {code}, not {status}")
    expect(facts["verdict"]["finding"] and facts["verdict"]["remedy"], f"{what}: finding and remedy")
    text = run("--doctor", **variables)
    expect(text.returncode == status and "To change that: " in text.stdout, f"{what}, as text")
    expect(text.stdout.startswith("Verdict\n"), f"{what}: the verdict comes first")
    expect(facts["verdict"]["commands"] and facts["verdict"]["commands"][0] in text.stdout, f"{what}: what to type")
    expect(all(len(line) <= 80 for line in text.stdout.splitlines() if "FI_GAUDI_HLTHUNK" not in line),
           f"{what}: 80 columns")

def rails(value):
    return {r["nic"]: r for r in document(FI_GAUDI_CORE="tcp", FI_GAUDI_RAILS=value)[1]["rails"]}


expect(document()[1]["rails"] == [] and rails("1") == {} and "Rails of" not in run().stdout, "one connection is no rails")
several = rails("3")
expect("lo" in several and all(r["rails"] == [nic] * 3 for nic, r in several.items()), f"three each: {several}")
named = rails("lo,nosuch0")
expect(named["lo"] == {"nic": "lo", "rails": ["lo"], "left_out": ["nosuch0"]}, f"one that is not there: {named['lo']}")
expect(all(r["rails"] == [nic, "lo"] for nic, r in named.items() if nic != "lo"), f"an interface beside: {named}")
text = run(FI_GAUDI_CORE="tcp", FI_GAUDI_RAILS="lo,nosuch0").stdout
expect("\n  lo        lo\n" in text and "Left out on lo, without an address like its own: nosuch0." in text, "as text")


def copies(**variables):
    rows = document("--doctor", **variables)[1]["copies"]
    expect(len(rows) == 6, "three directions of two devices")
    return {(row["device"], row["direction"]): row for row in rows}


rows = copies(FI_GAUDI_COPY_TABLE="off;h2d:pin=64K;d2h:split=1M,chunk=5000")
expect(not any(row["measured"] for row in rows.values()), "nothing measured where that is off")
expect((rows[0, "h2d"]["pin"], rows[0, "h2d"]["split"], rows[0, "h2d"]["chunk"]) == (64 << 10, None, 0), "what is fixed")
expect((rows[1, "d2h"]["pin"], rows[1, "d2h"]["split"], rows[1, "d2h"]["chunk"]) == (4 << 20, 1 << 20, 5000), "defaults")
for attempt in range(10):  # on a busy machine there may be nothing to believe in 20 ms
    rows = copies(HLSIM_H2D_GBPS="1", FI_GAUDI_COPY_TABLE="h2d:pin=off")
    if rows[0, "h2d"]["measured"]:
        break
# Half the time may be taken for latency, and never more.
expect(0 < rows[0, "h2d"]["gigabytes_per_second"] < 2.1, f"the rate of the device: {rows[0, 'h2d']}")
expect(rows[0, "h2d"]["pin"] is None, "fixed beside what is measured")
text = run("--doctor").stdout
expect("Copies (" in text and all(len(line) <= 80 for line in text.split("Copies (")[1].splitlines()[:8]), "as text")

_, facts = document("--doctor", FI_GAUDI_EAGERSIZE="1")
expect(["unset FI_GAUDI_EAGERSIZE"] in [f["commands"] for f in facts["findings"]], "a misspelt variable")
expect("FI_GAUDI_RNDV" not in run().stdout and "FI_GAUDI_RNDV" in run("--all").stdout, "parameters at their defaults")
expect(all(len(line) <= 80 for line in run("--help").stdout.splitlines()), "--help in 80 columns")

bad = run("--no-such-option")
expect(bad.returncode == 2 and len(bad.stderr.splitlines()) == 2, "a bad option, in one line and a hint")
expect(run("--sysfs", "/no/such/folder").returncode == 2, "a folder that is missing")
print("gaudi_info: all as expected")
