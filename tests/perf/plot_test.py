# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The plot of compare.py: a point at each row's median, a bar over its range, and a run of compare.py that draws one.

Usage: plot_test.py BUILD-FOLDER
Skips (77) without gnuplot.
"""

import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import plot

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "integration"))
import svg_curves  # noqa: E402  # from the folder above

BUILD = sys.argv.pop(1)
SKIP = 77
NAMES = ["it's <a> & b_c", "second", "third"]
RATIOS = [[1, 0.5, 2], [0.25, 0.2, 0.3], [4, 3, 8]]


class the_plot(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = f"{self.folder.name}/plot.svg"

    def compare(self, *options, path=os.environ["PATH"]):
        command = [sys.executable, "-B", HERE / "compare.py", "--build", BUILD, "--smoke", "--plot", self.path, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              env={**os.environ, "PATH": path})

    def test_has_a_point_for_each_median(self):
        plot.draw(self.path, list(zip(NAMES, RATIOS)))
        drawn = svg_curves.Plot(self.path)
        for name in NAMES:
            self.assertIn(name, drawn.texts)
        points = drawn.points(1)
        self.assertEqual(len(points), 3)
        # Medians 1, 1/4 and 4 are as far apart to the left as to the right, and rows are one below the other.
        (first_x, first_y), (second_x, second_y), (third_x, third_y) = points
        self.assertLess(second_x, first_x)
        self.assertAlmostEqual(first_x - second_x, third_x - first_x, delta=0.05)
        self.assertLess(first_y, second_y)
        self.assertAlmostEqual(second_y - first_y, third_y - second_y, delta=0.05)

    def test_has_a_bar_from_the_smallest_to_the_greatest(self):
        plot.draw(self.path, list(zip(NAMES, RATIOS)))
        drawn = svg_curves.Plot(self.path)
        (first, _), (second, _), _ = drawn.points(1)
        doubling = (first - second) / 2
        bars = drawn.horizontal_lines(1)
        self.assertEqual(len(bars), 3)
        for (left, right), ratios in zip(bars, RATIOS):
            self.assertAlmostEqual(left, first + doubling * math.log2(min(ratios)), delta=0.05)
            self.assertAlmostEqual(right, first + doubling * math.log2(max(ratios)), delta=0.05)

    def test_is_drawn_by_compare(self):
        done = self.compare("unexpected")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(svg_curves.Plot(self.path).points(1)), 1)
        self.assertTrue(any(re.match("unexpected, 64 deep", text) for text in svg_curves.Plot(self.path).texts))

    def test_says_at_once_what_is_missing(self):
        without = self.compare("unexpected", path=self.folder.name)
        self.assertEqual((without.returncode, without.stdout), (1, ""))
        self.assertIn("install the package gnuplot-nox", without.stderr)
        self.path = f"{self.folder.name}/none/plot.svg"
        nowhere = self.compare("unexpected")
        self.assertEqual((nowhere.returncode, nowhere.stdout), (1, ""))
        self.assertIn("none is no folder that can be written", nowhere.stderr)


if not shutil.which("gnuplot"):
    print("gnuplot is not installed (package gnuplot-nox)")
    sys.exit(SKIP)
unittest.main()
