# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Draws the ratios that compare.py measured, with gnuplot: the median of each row and its range, on one logarithmic axis."""

import os
import shutil
import statistics
import subprocess

PACKAGE = "gnuplot-nox"


class Unavailable(Exception):
    """The plot cannot be drawn; the text says what to do."""


def check(path):
    """Raises Unavailable where draw() is bound to fail, before hours of measurements for it."""
    if not shutil.which("gnuplot"):
        raise Unavailable(f"--plot: gnuplot is not on PATH (install the package {PACKAGE})")
    folder = os.path.dirname(path) or "."
    if not os.access(folder, os.W_OK):
        raise Unavailable(f"--plot: {folder} is no folder that can be written")


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def script(rows):
    """gnuplot's commands for [(name, ratios)]; the first row is at the top."""
    data = [f"{index} {statistics.median(ratios):.6g} {min(ratios):.6g} {max(ratios):.6g}"
            for index, (_, ratios) in enumerate(rows)]
    marks = ", ".join(f"{quoted(name)} {index}" for index, (name, _) in enumerate(rows))
    return "\n".join([
        "$ratios << END", *data, "END",
        f"set terminal svg size 1000,{130 + 22 * len(rows)} font 'sans-serif,13' noenhanced background rgb 'white'",
        "set title 'ours / theirs: median, smallest and greatest ratio (times: below 1 is better; rates: above)'",
        "set logscale x 2",
        "set format x '%g'",
        "set xlabel 'ratio'",
        f"set yrange [{len(rows) - 0.5}:-0.5]",
        f"set ytics ({marks})",
        "set grid",
        "unset key",
        "set arrow from 1, graph 0 to 1, graph 1 nohead linewidth 2 linecolor rgb 'gray'",
        "plot $ratios using 2:1:3:4 with xerrorbars linewidth 2 pointtype 7 pointsize 0.6", ""])


def draw(path, rows):
    if not rows:
        raise Unavailable("--plot: none of these rows is a ratio")
    done = subprocess.run(["gnuplot", "-"], input=script(rows).encode(), stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Unavailable(f"--plot: gnuplot failed (exit status {done.returncode})")
    with open(path, "wb") as file:
        file.write(done.stdout)
