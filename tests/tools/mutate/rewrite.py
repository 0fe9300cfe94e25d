# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Writes all mutants of a file into one text: each place asks at run time whether its mutant is the active one."""

import bisect

# Where two have the same place, the one that is a statement goes around the other.
OUTER = {"statement": 0, "return": 0, "condition": 1}


class Rewritten:
    """`text`, and which mutants stand at a place of it."""

    def __init__(self, original, sites):
        self.original = original
        self.out = bytearray()
        self.ranges = []  # (start, end, site) in what is written
        ordered = sorted(sites, key=lambda s: (s.start, -s.end, OUTER.get(s.operator, 2), s.number))
        self.write(0, len(original), ordered)
        self.text = bytes(self.out)
        self.lines = [0] + [i + 1 for i, b in enumerate(self.text) if b == 10]

    def write(self, start, end, sites):
        """`sites` are in order, and those within another follow it."""
        at = 0
        while at < len(sites):
            site = sites[at]
            inner = at + 1
            while inner < len(sites) and sites[inner].end <= site.end:
                inner += 1
            self.out += self.original[start:site.start]
            self.write_site(site, sites[at + 1:inner])
            start, at = site.end, inner
        self.out += self.original[start:end]

    def write_site(self, site, inner):
        before, after = site.template.split("{inner}")
        began = len(self.out)
        self.out += before.format(number=site.number).encode()
        self.write(site.start, site.end, inner)
        self.out += after.format(number=site.number).encode()
        self.ranges.append((began, len(self.out), site))

    def offset_of(self, line, column):
        return self.lines[line - 1] + column - 1 if line <= len(self.lines) else len(self.text)

    def at(self, line, column):
        """The innermost mutant at a place that a compiler names, else those of its line."""
        at = self.offset_of(line, column)
        within = [r for r in self.ranges if r[0] <= at < r[1]]
        if within:
            return [min(within, key=lambda r: r[1] - r[0])[2]]
        return [site for start, _, site in self.ranges if bisect.bisect_right(self.lines, start) == line]
