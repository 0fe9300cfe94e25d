#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Speed of the provider as ratios to what it is measured against, both sides in turn in one run.

  latency    64 B tagged ping-pong: gaudi's time over that of tcp;ofi_rxm, between the same two processes
             in turn in blocks of some 10 ms                                    (goal: at most 1.0)
  bandwidth  1 MiB tagged stream: gaudi's rate over that of tcp;ofi_rxm         (goal: at least 0.95)
  staged     device-device stream over min(copy rate, wire rate), for several
             rates of the stand-in's copy engine; simulated Gaudi2              (goal: at least 0.85 from 4 MiB)
             "dry": its copies take their time but no CPU, as real ones do; the copy rate is then the one that was set,
             as what measures it would need the CPU. Else the same CPUs carry the wire and the copies, and cannot do both
             at the full rate of either: "of both at once" is over the rate at which they do one after the other.
             As many messages are in flight as gaudi_perf has by default, 16 or 128 MiB of them; or --window N
  unexpected messages that wait, taken in reverse order: gaudi's time over rxm's  (goal: at most 0.15 at 4,096)
  local      two processes that share memory: tagged ping-pong, gaudi's time over that of libfabric's shm
             (goal: at most 1.2 at 8 B), and stream, gaudi's rate over shm's (goal: at least 0.8 at 64 B, 1.0 from 1 MiB)
  local-staged
             device-device stream between two processes that share memory, which is the default on one host, over the
             slowest of the copy rates of two processes that copy at the same time, as both ends of a transfer do;
             else as "staged"                                                   (goal: at least 0.9 from 4 MiB)
  mpi        Open MPI's ping-pong between two ranks on this host: gaudi's time with shared memory over its time with
             FI_GAUDI_IPC=off                                                   (goal: at most 0.33 at 8 B)
  cache      a hit in the MR cache and its end, against UCX's registration cache (libucx-dev; else alone)
                                  (goal: at most 25 ns at 1,024 entries, 60 ns at 65,536, 100 ns in each of two threads);
             the allocation that holds an address, of 1,024 (at most 15 ns); fi_mr_regattr and fi_close of known
             device memory (at most 120 ns)
  idle       resident memory per connected peer that says nothing               (goal: below 64 KiB)

All but the local ones and mpi are with FI_GAUDI_IPC=off, as between hosts.
Both processes of a pair run on a CPU of their own. Figures of the stand-in are this machine's, not a Gaudi's.

--results FILE also writes the figures, with date, machine and libfabric's release, as the table of tests/perf/RESULTS.md.
--plot FILE draws the ratios as an SVG (needs gnuplot).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import plot
import results

RXM = "tcp;ofi_rxm"
PORT = 18600
SECTIONS = ["latency", "bandwidth", "local", "staged", "local-staged", "unexpected", "mpi", "cache", "idle"]


class Bench:
    def __init__(self, build, pairs, smoke, window=None):
        self.build = pathlib.Path(build).resolve()
        self.pairs = pairs
        self.smoke = smoke
        self.window = ["--window", window] if window else []
        self.rows = []
        self.ratios = []  # [(what, ratios)]
        cpus = sorted(os.sched_getaffinity(0))
        self.cpus = (cpus[0], cpus[-1])

    def environment(self, provider, extra):
        env = dict(os.environ, FI_PROVIDER_PATH=str(self.build / "prov"), FI_PROVIDER=provider,
                   FI_GAUDI_CORE="tcp", FI_GAUDI_IPC="off", FI_TCP_DISABLE_AUTO_PROGRESS="1", HLSIM_DEVICES="2",
                   FI_GAUDI_HLTHUNK=str(self.build / "util/hlsim/libhl-thunk.so"))
        return env | extra

    def pinned(self, cpu, *command):
        return ["taskset", "-c", str(cpu), *map(str, command)]

    def measure(self, provider, options, extra=None, devices=False):
        """One server and client of gaudi_perf; the client's single result."""
        env = self.environment(provider, extra or {})
        tool = self.build / "util/gaudi_perf"
        common = [tool, "--provider", provider, "--port", PORT]
        where = ["device:0", "device:1"] if devices else ["host", "host"]
        server = subprocess.Popen(self.pinned(self.cpus[0], *common, "--memory", where[0]), env=env,
                                  stdout=subprocess.DEVNULL)
        try:
            for _ in range(50):
                time.sleep(0.1)
                client = subprocess.run(
                    self.pinned(self.cpus[1], *common, "--memory", where[1], "--json", *options, "127.0.0.1"),
                    env=env, capture_output=True, text=True, timeout=180)
                if client.returncode == 0:
                    server.wait(30)
                    return json.loads(client.stdout)["results"][0]
                if server.poll() is not None:
                    break
            raise RuntimeError(f"gaudi_perf over {provider} failed: {client.stderr.strip()}")
        finally:
            server.kill()
            server.wait()

    def program(self, name, *arguments, provider="gaudi", extra=None):
        out = subprocess.run([self.build / "tests/perf" / name, *map(str, arguments)], check=True, text=True,
                             env=self.environment(provider, extra or {}), capture_output=True, timeout=180)
        return [float(word) for word in out.stdout.split()]

    def copies_of_both(self, command, extra):
        """Each on the CPU, and with the device, that its process of a pair has."""
        both = [subprocess.Popen(self.pinned(cpu, self.build / "tests/perf" / command[0], *command[1:]), text=True,
                                 env=self.environment("gaudi", extra | {"FI_GAUDI_DEVICE": str(device)}),
                                 stdout=subprocess.PIPE) for device, cpu in enumerate(self.cpus)]
        outputs = [one.communicate(timeout=180)[0] for one in both]
        return min(float(word) for out in outputs for word in out.split())

    def report(self, what, ours, theirs, unit, ratios, note=""):
        self.rows.append(results.ratio_row(what, ours, theirs, unit, ratios, note))
        self.ratios.append((what, ratios))
        print(f"{what:34} {statistics.median(ours):10.2f} {statistics.median(theirs):10.2f} {unit:5} "
              f"ratio median {statistics.median(ratios):5.2f}  min {min(ratios):5.2f}  max {max(ratios):5.2f}{note}",
              flush=True)

    def in_turn(self, what, unit, one_of, sides=("gaudi", RXM)):
        """one_of(side) measures one side once."""
        ours, theirs = [], []
        for _ in range(self.pairs):
            ours.append(one_of(sides[0]))
            theirs.append(one_of(sides[1]))
        self.report(what, ours, theirs, unit, [a / b for a, b in zip(ours, theirs)])

    def latency(self):
        rounds, blocks = (20, 1) if self.smoke else (1000, 20 * self.pairs)
        for size in [64] if self.smoke else [8, 64, 1024, 4096]:
            self.ping_pongs(f"latency {size} B, gaudi / rxm", size, rounds, blocks)
        self.ping_pongs("latency 8 B as HCL, gaudi / rxm", 8, rounds, blocks, 16)

    def ping_pongs(self, what, size, rounds, blocks, *others):
        """`others`: how many endpoints there are beside, with FI_PROGRESS_AUTO."""
        times = self.program("perf_ping_pong", size, rounds, blocks, "gaudi", RXM, *others, provider="gaudi,tcp,ofi_rxm")
        ours, theirs = times[::2], times[1::2]
        self.report(what, ours, theirs, "us", [a / b for a, b in zip(ours, theirs)])

    def bandwidth(self):
        for size, iterations in [("1M", 8)] if self.smoke else [("8", 500000), ("64K", 60000), ("1M", 8000), ("4M", 2000)]:
            options = ["--op", "tagged", "--window", 16, "--iters", iterations, "--size", size]
            self.in_turn(f"bandwidth {size}, gaudi / rxm", "MB/s",
                         lambda provider: self.measure(provider, options)["megabytes_per_second"])

    def local(self):
        shared = {"FI_GAUDI_IPC": "auto"}
        for size, iterations in [("8", 200)] if self.smoke else [("8", 50000), ("4K", 50000), ("64K", 5000)]:
            options = ["--op", "tagged", "--iters", iterations, "--size", size]
            self.in_turn(f"local latency {size}, gaudi / shm", "us",
                         lambda provider: self.measure(provider, options, shared)["latency_us"]["median"], ("gaudi", "shm"))
        for size, iterations in [("1M", 8)] if self.smoke else [("64", 1000000), ("64K", 60000), ("1M", 8000), ("4M", 2000)]:
            options = ["--op", "tagged", "--window", 16, "--iters", iterations, "--size", size]
            self.in_turn(f"local bandwidth {size}, gaudi / shm", "MB/s",
                         lambda provider: self.measure(provider, options, shared)["megabytes_per_second"], ("gaudi", "shm"))

    def staged(self):
        self.at_rates("staged", {"FI_GAUDI_IPC": "off"})

    def local_staged(self):
        self.at_rates("local staged", {"FI_GAUDI_IPC": "auto"})

    def at_rates(self, name, ipc):
        for dry in [0] if self.smoke else [0, 1]:
            for rate in [5] if self.smoke else [5, 25, 50] if dry else [1, 5, 0]:
                extra = ipc | {"HLSIM_H2D_GBPS": str(rate), "HLSIM_D2H_GBPS": str(rate), "HLSIM_DRY": str(dry)}
                for size, iterations in [("4M", 4)] if self.smoke else [("4M", 200), ("16M", 60), ("64M", 20)]:
                    what = f"{name} {size}, " + (f"{rate} GB/s" if rate else "unlimited") + (", dry" if dry else "")
                    self.staged_one(what, size, iterations, extra)

    def copied_by(self, size, iterations):
        """Of a stream: the memory that all messages in flight have, as caches know a part of it, and how often."""
        slots = max(2, min(self.window[1] if self.window else 16, (128 << 20) // size))
        return slots * size, max(1, iterations // slots)

    def staged_one(self, name, size, iterations, extra):
        """All rates belong to one round, so that the machine's moods meet them alike."""
        local = extra["FI_GAUDI_IPC"] != "off"
        dry_rate = float(extra["HLSIM_H2D_GBPS"]) * 1e3 if extra["HLSIM_DRY"] == "1" else None
        options = ["--op", "tagged", *self.window, "--iters", iterations, "--size", size]
        bounds, got, of_both = [], [], []
        for _ in range(self.pairs):
            copy = ["perf_copy_rate", *self.copied_by(int(size[:-1]) << 20, iterations)]
            if local:
                bound = dry_rate or self.copies_of_both(copy, extra)
            else:
                copies = [dry_rate] if dry_rate else self.program(*copy, extra=extra)
                wire = self.measure("gaudi", options)["megabytes_per_second"]
                bound = min(*copies, wire)
            got.append(self.measure("gaudi", options, extra, devices=True)["megabytes_per_second"])
            bounds.append(bound)
            if not local and not dry_rate:
                by_cpu = self.copies_of_both(copy, extra | {"HLSIM_H2D_GBPS": "0", "HLSIM_D2H_GBPS": "0"})
                of_both.append(got[-1] / min(bound, 1 / (1 / wire + 1 / by_cpu)))
        note = f"  of both at once {statistics.median(of_both):5.2f}" if of_both else ""
        self.report(name, got, bounds, "MB/s", [a / b for a, b in zip(got, bounds)], note + "  (simulated Gaudi2)")

    def unexpected(self):
        """The rest of the line says how the cost grows: ours at 65,536 over ours at 64."""
        for depth in [64] if self.smoke else [64, 4096]:
            self.in_turn(f"unexpected, {depth} deep, gaudi / rxm", "ns",
                         lambda provider: self.program("perf_unexpected", provider, depth, provider=provider)[0])
        if not self.smoke:
            at = {depth: statistics.median(self.program("perf_unexpected", "gaudi", depth)[0] for _ in range(self.pairs))
                  for depth in [64, 4096, 65536]}
            print(f"unexpected, cost a message {at[64]:.0f} / {at[4096]:.0f} / {at[65536]:.0f} ns at 64 / 4,096 / 65,536 deep")
            self.rows += [results.single_row(f"unexpected, {depth} deep, a message", [cost], "ns") for depth, cost in at.items()]

    def mpi(self):
        program = self.build / "tests/perf/mpi_ping_pong"
        if not program.exists() or not shutil.which("mpirun.openmpi"):
            print("skipped: mpi (packages libopenmpi-dev and openmpi-bin)")
            return
        for size, rounds in [(8, 100)] if self.smoke else [(8, 50000), (65536, 5000)]:
            self.in_turn(f"MPI latency {size} B, shared / off", "us",
                         lambda ipc: self.mpi_ping_pong(program, size, rounds, ipc), ("auto", "off"))

    def mpi_ping_pong(self, program, size, rounds, ipc):
        env = self.environment("gaudi", {"FI_GAUDI_IPC": ipc, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                         "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "core", "-n", 2, "--mca", "pml", "cm",
                   "--mca", "mtl", "ofi", "--mca", "btl", "^ofi,openib", program, size, rounds]
        out = subprocess.run([*map(str, command)], check=True, text=True, env=env, capture_output=True, timeout=180)
        return float(out.stdout)

    def cache(self):
        count = 1000 if self.smoke else 200000
        ucx = (self.build / "tests/perf/perf_rcache_cost").exists()
        if not ucx:
            print("without UCX's registration cache (package libucx-dev)")
        for entries, threads in [(1024, 1), (65536, 1), (1024, 2), (65536, 2)]:
            what = f"cache hit, {entries} entries, {threads} threads"
            programs = {"gaudi": ["perf_cache_cost", "hit"], "ucx": ["perf_rcache_cost"]}
            one_of = lambda side: self.program(*programs[side], entries, threads, count)[0]
            if ucx:
                self.in_turn(f"{what}, gaudi / UCX", "ns", one_of, ("gaudi", "ucx"))
            else:
                self.alone(what, lambda: one_of("gaudi"))
        self.alone("address look-up, 1024 allocations", lambda: self.program("perf_cache_cost", "lookup", 1024, count)[0])
        with tempfile.TemporaryDirectory() as folder:
            tool = [self.build / "tests/perf/perf_region_cost", self.build / "util/hlsim/libhl-thunk.so", str(count // 10)]
            self.alone("regattr and close, known memory", lambda: float(subprocess.run(
                [*tool, "alike"], env=os.environ | {"HLSIM_DIR": folder}, check=True, capture_output=True, text=True,
                timeout=180).stdout.split(" ns")[0].split()[-1]))

    def alone(self, what, measure):
        times = [measure() for _ in range(self.pairs)]
        self.rows.append(results.single_row(what, times, "ns"))
        print(f"{what:34} {statistics.median(times):10.2f} {'':10} ns    min {min(times):.2f}", flush=True)

    def idle(self):
        peers = 8 if self.smoke else 64
        self.in_turn(f"idle peer, {peers} of them", "KiB",
                     lambda provider: max(self.program("perf_idle_peers", provider, peers, provider=provider)[0], 0.01))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], *SECTIONS])
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs for each figure (default: 9)")
    parser.add_argument("--window", type=int, help="messages in flight of staged and local-staged")
    parser.add_argument("--results", metavar="FILE", help="write the figures as a Markdown table, too")
    parser.add_argument("--plot", metavar="FILE", help="draw the ratios as an SVG, too (needs gnuplot)")
    parser.add_argument("--force", action="store_true", help="measure on a busy machine, too")
    parser.add_argument("--smoke", action="store_true", help="one short pair of each: checks that this program works")
    options = parser.parse_args()
    if options.plot:
        plot.check(options.plot)
    load = os.getloadavg()[0]
    print(f"load average {load:.2f}, {os.cpu_count()} CPUs")
    if load > 0.5 and not (options.force or options.smoke):
        print("skipped: the machine is busy, figures would mean nothing (--force measures all the same)")
        return 77
    print(f"{'':34} {'ours':>10} {'theirs':>10}")
    bench = Bench(options.build, 1 if options.smoke else options.pairs, options.smoke, options.window)
    for what in options.what or SECTIONS:
        getattr(bench, what.replace("-", "_"))()
    if options.results:
        asked = [*options.what, "--pairs", str(bench.pairs)] + (["--window", str(options.window)] if options.window else [])
        results.write(options.results, bench.rows, bench.pairs, [load, os.getloadavg()[0]], asked)
    if options.plot:
        plot.draw(options.plot, bench.ratios)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except plot.Unavailable as error:
        sys.exit(f"compare.py: {error}")
