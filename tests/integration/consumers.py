#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What CONSUMERS.md calls CI is there: each test and script that such a row names, on each libfabric.

    consumers.py CTEST BUILD-FOLDER SOURCE-FOLDER
"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import unittest


def ci_rows(text):
    """The libfabric releases and the names in back quotes of each row that is shown by CI."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and cells[5].startswith("CI:"):
            yield cells[1].split(", "), re.findall(r"`([^`]+)`", cells[5])


def problems(text, tests, has_file):
    found = []
    rows = list(ci_rows(text))
    for releases, names in rows:
        if not names:
            found.append("a row of CI names nothing")
            continue
        name = names[0]
        if "/" in name:
            if not has_file(name):
                found.append(f"{name}: no such file")
            continue
        matching = [test for test in tests if fnmatch.fnmatchcase(test, name)]
        if not matching:
            found.append(f"{name}: no such test")
        for release, needed in (("1.17", False), ("2.1", True)):
            if matching and release in releases and all(("libfabric_2" in t) != needed for t in matching):
                found.append(f"{name}: none on libfabric {release}")
    return found if rows else ["no row is shown by CI"]


class Consumers(unittest.TestCase):
    def test_are_in_ci_where_the_document_says_so(self):
        listing = subprocess.run([CTEST, "--test-dir", BUILD, "--show-only=json-v1"], check=True,
                                 capture_output=True, text=True).stdout
        tests = [test["name"] for test in json.loads(listing)["tests"]]
        text = (SOURCE / "tests/integration/CONSUMERS.md").read_text()
        self.assertEqual(problems(text, tests, lambda name: (SOURCE / name).exists()), [])


class Problems(unittest.TestCase):
    TESTS = ["integration.a", "integration.a_libfabric_2", "integration.b"]

    def found(self, releases, shown_by):
        row = f"| A | {releases} | tcp | host | passed | {shown_by} |"
        return problems(row, self.TESTS, lambda name: name == "fabtests/ci.sh")

    def test_are_none_where_all_is_there(self):
        self.assertEqual(self.found("1.17, 2.1", "CI: `integration.a*`"), [])
        self.assertEqual(self.found("1.17, 2.1", "CI: `fabtests/ci.sh`"), [])

    def test_are_missing_tests_files_and_releases(self):
        self.assertEqual(self.found("1.17", "CI: `integration.c`"), ["integration.c: no such test"])
        self.assertEqual(self.found("1.17", "CI: `fabtests/no.sh`"), ["fabtests/no.sh: no such file"])
        self.assertEqual(self.found("1.17, 2.1", "CI: `integration.b`"), ["integration.b: none on libfabric 2.1"])
        self.assertEqual(self.found("1.17", "CI"), ["no row is shown by CI"])
        self.assertEqual(self.found("1.17", "CI: all"), ["a row of CI names nothing"])


if __name__ == "__main__":
    CTEST, BUILD, SOURCE = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
