# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gaudi_perf --plot: each point of the SVG is where its run's figures belong, and each mistake has a line of its own.

Usage: perf_plot.py GAUDI-PERF
Skips (77) without gnuplot.
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import svg_curves

PERF = sys.argv[1]
SKIP, HANG = 77, 60
PORT = str(20000 + os.getpid() % 10000)
WORK = pathlib.Path(tempfile.mkdtemp(prefix="gaudi-plot-", dir="/dev/shm"))
ENVIRONMENT = {**os.environ, "HLSIM_DIR": str(WORK / "devices")}
PLOT = WORK / "plot.svg"
# Figures that tell where any other has to be: both axes are logarithmic.
HEADER = "op,client_memory,server_memory,device,size,count,min_us,median_us,p99_us,MB_per_s,Gb_per_s,ops_per_s,path\n"
KNOWN = {1: (1, 2), 1024: (10, 200), 1 << 20: (1000, 20000)}
ODD_NAME = "it's <a> & b_c"
ROUNDING = 0.05  # of coordinates, which have two decimals


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def perf(*options, environment=None):
    return subprocess.run([PERF, *map(str, options)], env=environment or ENVIRONMENT, capture_output=True, text=True,
                          timeout=HANG, check=False)


def known_run():
    path = WORK / f"{ODD_NAME}.csv"
    path.write_text(HEADER + "".join(f"write,device,host,Gaudi2,{size},9,0,{latency},0,{rate},0,0,staged\n"
                                     for size, (latency, rate) in KNOWN.items()), encoding="utf-8")
    return path


def scale(coordinates, values):
    """value -> coordinate on a logarithmic axis, from what is known of it; fails where that is no such axis."""
    logs = [math.log(value) for value in values]
    slope = (coordinates[-1] - coordinates[0]) / (logs[-1] - logs[0])
    for coordinate, log in zip(coordinates, logs):
        expect(abs(coordinates[0] + slope * (log - logs[0]) - coordinate) < ROUNDING, f"{coordinates} for {values}")
    return lambda value: coordinates[0] + slope * (math.log(value) - logs[0])


def check_panel(plot, panel, results, figure, known):
    points = plot.curve(2, panel)
    expect(len(points) == len(KNOWN), f"points of the earlier run: {points}")
    to_x = scale([x for x, _ in points], list(KNOWN))
    to_y = scale([y for _, y in points], known)
    found = plot.curve(1, panel)
    wanted = [(to_x(result["size"]), to_y(figure(result))) for result in results]
    expect(len(found) == len(wanted), f"{len(found)} points of {len(wanted)} sizes")
    for (x, y), (wanted_x, wanted_y) in zip(found, wanted):
        expect(abs(x - wanted_x) < ROUNDING and abs(y - wanted_y) < ROUNDING, f"{x}, {y} is not {wanted_x}, {wanted_y}")


def check_figures(results):
    plot = svg_curves.Plot(PLOT)
    check_panel(plot, "a", results, lambda one: one["latency_us"]["median"], [latency for latency, _ in KNOWN.values()])
    check_panel(plot, "b", results, lambda one: one["megabytes_per_second"], [rate for _, rate in KNOWN.values()])
    for text in ("this run: tagged, device to host", f"{ODD_NAME}: write, device to host", "us", "MB/s", "1 KiB"):
        expect(text in plot.texts, f"the plot says {text}: {plot.texts}")


def measure_and_plot(overlay):
    """A pair whose server draws; what its client printed is what has to be in the plot."""
    command = [PERF, "--port", PORT, "--memory", "host", "--plot", str(PLOT), "--overlay", str(overlay)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as server:
        try:
            client = perf("--port", PORT, "--memory", "device:0", "--all", "--iters", 2, "--warmup", 1, "--json", "127.0.0.1")
            expect(client.returncode == 0, f"the client: {client.stderr}")
            expect(server.wait(HANG) == 0, "the server, which draws")
        finally:
            server.kill()
    return client.stdout


def check_saved(printed, overlay):
    """The same curves from the client's JSON alone, without a run."""
    saved = WORK / "saved.json"
    saved.write_text(printed, encoding="utf-8")
    before = svg_curves.Plot(PLOT)
    again = perf("--plot", PLOT, "--plot-only", "--overlay", saved, "--overlay", overlay)
    expect(again.returncode == 0 and again.stderr == "", f"--plot-only: {again.stderr}")
    after = svg_curves.Plot(PLOT)
    expect(all(before.curve(n, panel) == after.curve(n, panel) for n in (1, 2) for panel in "ab"), "the same curves")
    expect("saved: tagged, device to host" in after.texts, f"{after.texts}")


def check_single_size(overlay):
    one = WORK / "one.csv"
    one.write_text("".join(overlay.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    done = perf("--plot", PLOT, "--plot-only", "--overlay", one)
    expect(done.returncode == 0 and done.stderr == "", f"one size: {done.stderr}")
    expect(len(svg_curves.Plot(PLOT).curve(1, "a")) == 1, "one point")


def check_refusals(overlay):
    def refused(code, line, *options, environment=None):
        done = perf(*options, environment=environment)
        expect(done.returncode == code and line in done.stderr, f"{options}: {done.returncode}, {done.stderr}")

    kept = PLOT.read_bytes()
    wrong = WORK / "wrong"
    wrong.write_text("no run\n1,2\n", encoding="utf-8")
    refused(2, "--overlay requires --plot", "--overlay", overlay)
    refused(2, "--plot-only requires --overlay", "--plot", PLOT, "--plot-only")
    refused(2, "--tour excludes --plot", "--plot", PLOT, "--tour")
    refused(1, f"{wrong} is not what --json or --csv printed", "--plot", PLOT, "--overlay", wrong)
    refused(1, "no such file", "--plot", PLOT, "--overlay", WORK / "none")
    refused(1, "failed to create /nowhere/plot.svg", "--plot", "/nowhere/plot.svg")
    refused(1, "gnuplot-nox", "--plot", PLOT, environment={**ENVIRONMENT, "PATH": str(WORK)})
    broken = WORK / "gnuplot"
    broken.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    refused(1, f"{broken} failed (exit status 3)", "--plot", PLOT, "--plot-only", "--overlay", overlay,
            environment={**ENVIRONMENT, "PATH": f"{WORK}:{os.environ['PATH']}"})
    expect(PLOT.read_bytes() == kept, "a failure leaves the plot as it was")
    expect([one.name for one in WORK.glob("*.unfinished")] == [], "nothing unfinished is left")


def main():
    if not shutil.which("gnuplot"):
        print("gnuplot is not installed (package gnuplot-nox)")
        sys.exit(SKIP)
    overlay = known_run()
    printed = measure_and_plot(overlay)
    check_figures(json.loads(printed)["results"])
    check_saved(printed, overlay)
    check_single_size(overlay)
    check_refusals(overlay)
    print("the plot: all as expected")


try:
    main()
finally:
    shutil.rmtree(WORK, ignore_errors=True)
