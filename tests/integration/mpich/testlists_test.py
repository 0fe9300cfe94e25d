#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The reader of MPICH's test lists, and what counts as a failure, without MPICH."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import run
import testlists


class Lines(unittest.TestCase):
    def test_have_a_program_ranks_and_options(self):
        test = testlists.parse_line("coll", "red 5 arg=-a arg=-n=2 env=MPIR_X=y=z timeLimit=600 mem=1.5 mpiexecarg=-q # why")
        self.assertEqual((test.folder, test.program, test.ranks), ("coll", "red", 5))
        self.assertEqual((test.arguments, test.environment, test.mpiexec), (["-a", "-n=2"], {"MPIR_X": "y=z"}, ["-q"]))
        self.assertEqual((test.time_limit, test.memory), (600, 1.5))

    def test_have_defaults(self):
        test = testlists.parse_line("pt2pt", "  sendself")
        self.assertEqual((test.ranks, test.time_limit, test.memory), (2, 180, 0))

    def test_may_name_a_program_of_a_folder_below(self):
        self.assertEqual(testlists.parse_line("a", "b/c 1").folder, "a/b")

    def test_say_which_tests_mpich_expects_to_fail(self):
        self.assertEqual(testlists.parse_line("pt2pt", "scancel 2 xfail=ticket1").expected_failure, "ticket1")

    def test_without_a_program_are_none(self):
        for line in ("", "# red 2", "!util:lib"):
            self.assertIsNone(testlists.parse_line("coll", line))

    def test_with_an_unknown_option_are_an_error(self):
        with self.assertRaises(ValueError):
            testlists.parse_line("coll", "red 2 ranks=3")

    def test_that_name_a_folder_stand_for_its_list(self):
        with tempfile.TemporaryDirectory() as root:
            below = pathlib.Path(root, "threads/rma")
            below.mkdir(parents=True)
            (below.parent / "testlist").write_text("rma\n# pt2pt\n")
            (below / "testlist").write_text("lock 4\n")
            names = [test.name for test in testlists.read_folder(root, "threads", ["testlist", "testlist.dtp"])]
        self.assertEqual(names, ["threads/rma/lock 4"])


class Judgement(unittest.TestCase):
    def judge(self, status, output):
        return testlists.judge(testlists.parse_line("coll", "red"), status, output)

    def test_passes_no_errors_alone(self):
        self.assertEqual(self.judge(0, " No Errors\n"), "")

    def test_fails_all_else(self):
        self.assertIn("exit status 9", self.judge(9, " No Errors\n"))
        self.assertIn("unexpected output: found 1", self.judge(0, "found 1\n No Errors\n"))
        self.assertIn("without No Errors", self.judge(0, "\n"))


class Comparison(unittest.TestCase):
    def alone(self, ours, theirs):
        with contextlib.redirect_stdout(io.StringIO()):
            return run.compare({run.PROVIDER: ours, run.REFERENCE: theirs})

    def test_finds_what_fails_over_the_provider_only(self):
        self.assertEqual(self.alone({"a": "x", "b": "y"}, {"b": "z", "c": "z"}), {"a": "x"})
        self.assertEqual(self.alone({"b": "y"}, {"b": "z"}), {})


class Execution(unittest.TestCase):
    def test_tells_status_and_output(self):
        self.assertEqual(run.execute(["sh", "-c", "echo it; exit 3"], "/", {}, 60), (3, "it\n"))

    def test_ends_what_takes_too_long(self):
        status, output = run.execute(["sh", "-c", "echo it; sleep 600 & sleep 600"], "/", {"PATH": "/usr/bin:/bin"}, 0.5)
        self.assertEqual((status, output), (None, "it\n"))


if __name__ == "__main__":
    unittest.main()
