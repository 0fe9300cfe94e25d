# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a plot shows: the texts and curves of an SVG file that gnuplot wrote."""

import re
import xml.etree.ElementTree

SVG = "{http://www.w3.org/2000/svg}"


class Plot:
    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot()
        self.texts = ["".join(text.itertext()) for text in root.iter(SVG + "text")]
        self.plots = {group.get("id"): group for group in root.iter(SVG + "g")
                      if re.fullmatch(r"gnuplot_plot_\w+", group.get("id", ""))}

    def curve(self, number, panel=""):
        """The points of a curve that has a line in the legend. Panels of one file are "a", "b" and so on."""
        return self.points(number, panel)[:-1]  # the last is the legend's

    def points(self, number, panel=""):
        """[(x, y)] of a curve's marks. Curves count from 1."""
        marks = self.plots[f"gnuplot_plot_{number}{panel}"].iter(SVG + "use")
        places = [re.match(r"translate\(([-\d.]+),([-\d.]+)\)", mark.get("transform")) for mark in marks]
        return [(float(place.group(1)), float(place.group(2))) for place in places]

    def horizontal_lines(self, number):
        """[(left, right)] of what a curve has of them, as error bars are."""
        paths = " ".join(path.get("d") for path in self.plots[f"gnuplot_plot_{number}"].iter(SVG + "path"))
        lines = re.findall(r"M([-\d.]+),([-\d.]+) L([-\d.]+),([-\d.]+)", paths)
        return [(float(left), float(right)) for left, y, right, other_y in lines if y == other_y]
