# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A place in the sources and one change of it: a mutant."""

import dataclasses
import hashlib
import re


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


@dataclasses.dataclass
class Site:
    file: str  # below the root of the tree
    function: str
    operator: str
    start: int  # the bytes of the file that the template replaces: [start, end)
    end: int
    line: int
    source: str  # what is there, and
    change: str  # what is there instead, for people
    template: str  # C++, with {number} and {inner}, what was there
    nth: int = 0  # of its like in the function
    number: int = 0  # in this build
    unit: str = ""  # the translation unit that it was seen in

    @property
    def room(self):
        return self.file.split("/")[1]

    @property
    def key(self):
        """What it is recognised by when lines have moved."""
        return self.file, self.function, self.operator, one_line(self.source), one_line(self.change), self.nth

    @property
    def id(self):
        return hashlib.sha256("\0".join(map(str, self.key)).encode()).hexdigest()[:8]

    def __str__(self):
        change = one_line(self.change) or "(nothing)"
        return f"{self.id} {self.file}:{self.line} {self.function}, {self.operator}: {one_line(self.source)} -> {change}"


# Numbers that each file has for its own, so that a change of one leaves the others' texts alone.
OF_A_FILE = 1024


def number_all(sites, files):
    """In their order in the files, of which `files` are all; tells apart those that read the same within a function."""
    seen = {}
    sites.sort(key=lambda s: (s.file, s.start, -s.end, s.operator, s.change))
    next_number = {file: place * OF_A_FILE for place, file in enumerate(sorted(files), 1)}
    for site in sites:
        site.number = next_number[site.file]
        next_number[site.file] += 1
        key = site.key[:5]
        site.nth = seen.get(key, 0)
        seen[key] = site.nth + 1
    return sites
