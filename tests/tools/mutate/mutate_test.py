#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The mutants of fixture.cpp are those that the operators' names say, they compile, and each is killed or survives as it must."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if sys.version_info < (3, 11):
    print("skipped: answers are read by tomllib, which came with Python 3.11")
    sys.exit(77)

if "clang" in os.environ.get("CXX", ""):
    print("skipped: the mutants are made from what GCC says of columns (-fdiagnostics-column-unit)")
    sys.exit(77)

import answers
import clang_index
import find
import locks
import mutant_site
import programs
import report
import rewrite
import sample
import verdict
import walk

HERE = pathlib.Path(__file__).resolve().parent
FIXTURE = HERE / "fixture.cpp"
FILE = "prov/reg/fixture.cpp"
ARGUMENTS = ["-std=c++20"]
COMPILER = [os.environ.get("CXX", "c++"), *ARGUMENTS, "-w", "-fdiagnostics-column-unit=byte", "-include", HERE / "runtime/mutant.hpp"]


def mutants_of(path):
    unit = clang_index.parse(path, ARGUMENTS)
    return mutant_site.number_all(walk.mutants_of(unit, {str(path): FILE}), [FILE])


def mutants_of_text(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.cpp")
        path.write_text(text, encoding="utf-8")
        return mutants_of(path)


def changes(text):
    return {(s.operator, mutant_site.one_line(s.source), mutant_site.one_line(s.change)) for s in mutants_of_text(text)}


class Mutants(unittest.TestCase):
    def test_of_conditions(self):
        found = changes("int f(int a, bool b) { if (a < 2 || b) return 1; return !b; }")
        self.assertLessEqual({("condition", "a < 2 || b", "!(a < 2 || b)"), ("condition", "a < 2 || b", "false"),
                              ("logical", "a < 2 || b", "a < 2 && b"), ("relational", "a < 2", "a <= 2"),
                              ("constant", "2", "2 + 1"), ("constant", "2", "2 - 1"), ("negation", "!b", "b"),
                              ("return", "return 1", "return {}")}, found)

    def test_with_an_else_a_condition_is_only_negated(self):
        found = changes("int f(int a) { if (a < 2) return 1; else return 2; }")
        self.assertIn(("condition", "a < 2", "!(a < 2)"), found)
        self.assertNotIn(("condition", "a < 2", "false"), found)

    def test_of_statements(self):
        found = changes("void g(int); void f(int a) { a = 3; g(a); a += 4; ++a; for (;;) { if (a) break; continue; } }")
        for source in ("a = 3", "g(a)", "a += 4", "++a", "break", "continue"):
            self.assertIn(("statement", source, ""), found)

    def test_of_locks(self):
        found = changes("#include <mutex>\nstd::mutex m; void f() { const std::lock_guard lock(m); }")
        self.assertEqual(found, {("lock", "const std::lock_guard lock(m)", "")})

    def test_none_in_what_does_not_run(self):
        self.assertEqual(changes("""#define SAY(text, value) g(value)
            void g(int); constexpr int a = 1 + 2; static_assert(a == 3); constexpr int h(int b) { return b + 1; }
            enum { e = 4 }; template <int N> struct t { int m[N + 1]; };
            void f() { constexpr int c = 5; SAY("x", c + 6); }"""), set())

    def test_are_known_again_when_lines_have_moved(self):
        text = "int f(int a) { return a + 1; }\n"
        self.assertEqual([s.id for s in mutants_of_text(text)], [s.id for s in mutants_of_text("\n\n" + text)])
        twice = mutants_of_text("int f(int a) { a += 1; a += 1; return a; }")
        self.assertEqual(len({s.id for s in twice}), len(twice))


class Rooms(unittest.TestCase):
    def test_have_files_in_folders_of_theirs(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            paths = [root / "prov" / name for name in ("reg/a.cpp", "reg/inner/b.cpp", "registry/c.cpp")]
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("int f(int a) { return a; }", encoding="utf-8")
            commands = root / "commands.json"
            commands.write_text(json.dumps([{"file": str(p), "command": f"c++ -o x -c {p}"} for p in paths]), encoding="utf-8")
            self.assertEqual({s.file for s in find.mutants(root, ["reg"], commands)}, {"prov/reg/a.cpp", "prov/reg/inner/b.cpp"})


class Fixture(unittest.TestCase):
    """All mutants of it in one program."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.sites = mutants_of(FIXTURE)
        (folder / "fixture.cpp").write_bytes(rewrite.Rewritten(FIXTURE.read_bytes(), cls.sites).text)
        binary = folder / "fixture"
        subprocess.run([*COMPILER, folder / "fixture.cpp", HERE / "runtime/mutant.cpp", "-o", binary], check=True)
        cls.program = programs.Program("unit.reg", [str(binary)], {})
        cls.program.record()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def state(self, function, operator, source, change):
        site = next(s for s in self.sites if (s.function, s.operator, s.source, s.change) == (function, operator, source, change))
        return verdict.judge(site, {"unit.reg": self.program}, HERE, None)

    def test_kills(self):
        for mutant in (("fits", "relational", "low <= value", "low < value"), ("fits", "relational", "value < high", "value <= high"),
                       ("fits", "logical", "low <= value && value < high", "low <= value || value < high"),
                       ("clamped", "condition", "value > limit", "false"), ("counter::add", "arithmetic", "total += more", "total -= more"),
                       ("counter::add", "statement", "total += more", ""), ("is_odd", "statement", "break", "")):
            with self.subTest(mutant):
                found = self.state(*mutant)
                self.assertEqual((found.state, found.by), ("killed", "unit.reg: exit status 1"))

    def test_an_equivalent_one_survives(self):
        self.assertEqual(self.state("clamped", "relational", "value > limit", "value >= limit").state, "survived")

    def test_what_nothing_comes_by_is_told_apart(self):
        self.assertEqual(self.state("untested", "return", "return -value", "return {}").state, "unreached")

    def test_a_hang_kills(self):
        at_least, programs.AT_LEAST_S = programs.AT_LEAST_S, 1
        try:
            found = self.state("steps_to", "statement", "++steps", "")
        finally:
            programs.AT_LEAST_S = at_least
        self.assertRegex(found.by, "unit.reg: a hang")


class Compiling(unittest.TestCase):
    def test_an_error_is_the_innermost_mutants(self):
        text = b"int f(int a, int b) { return (a + 1) * b; }\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.cpp")
            path.write_bytes(text)
            sites = mutants_of(path)
            broken = next(s for s in sites if s.operator == "arithmetic" and s.source == "a + 1")
            broken.template = "(gaudi_mutant({number}) ? (a - nothing) : ({inner}))"
            rewritten = rewrite.Rewritten(text, sites)
            path.write_bytes(rewritten.text)
            said = subprocess.run([*COMPILER, "-fsyntax-only", path], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        line, column = map(int, said.stderr.split(f"{path}:")[-1].split(": error")[0].split(":"))
        self.assertEqual(rewritten.at(line, column), [broken])


class Locks(unittest.TestCase):
    TEXT = """struct __attribute__((capability("mutex"))) mutex {
          void lock() __attribute__((acquire_capability())); void unlock() __attribute__((release_capability())); };
        struct __attribute__((scoped_lockable)) scoped_lock {
          explicit scoped_lock(mutex& m) __attribute__((acquire_capability(m))); ~scoped_lock() __attribute__((release_capability())); };
        struct both { void f() { scoped_lock lock(m); ++guarded; } void g() { scoped_lock lock(m); ++other; }
          mutex m; int guarded __attribute__((guarded_by(m))) = 0; int other = 0; };"""

    def test_the_compiler_notices_one_that_guards_something(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            path = root / "prov/reg/fixture.cpp"
            path.parent.mkdir(parents=True)
            path.write_text(self.TEXT, encoding="utf-8")
            commands = root / "commands.json"
            commands.write_text(f'[{{"file": "{path}", "command": "c++ -std=c++20 -o x -c {path}"}}]', encoding="utf-8")
            said = {}
            for site in mutants_of(path):
                if site.operator == "lock":
                    site.unit = str(path)
                    said[site.function] = locks.complaint(site, root, commands)
        self.assertIn("requires holding mutex 'm'", said["both::f"])
        self.assertIsNone(said["both::g"])


class Answers(unittest.TestCase):
    def setUp(self):
        self.sites = mutants_of(FIXTURE)

    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "answers.toml")
            path.write_text(text, encoding="utf-8")
            return answers.read(path)

    def test_an_answered_mutant_is_not_run(self):
        known = self.read("".join(answers.text_of(site, "equal") for site in self.sites[:3]))
        to_run, answered, stale = answers.split(self.sites, known)
        self.assertEqual((to_run, answered, stale), (self.sites[3:], self.sites[:3], []))

    def test_one_that_is_no_mutant_any_more_is_told(self):
        known = self.read(answers.text_of(self.sites[0], "equal").replace("function = '", "function = 'un"))
        to_run, answered, stale = answers.split(self.sites, known)
        self.assertEqual((to_run, answered, len(stale)), (self.sites, [], 1))

    def test_texts_with_quotes_are_read_as_they_were_written(self):
        reason = """the kernel's "no" \\"""
        self.assertEqual(list(self.read(answers.text_of(self.sites[0], reason)).values()), [reason])

    def test_one_without_a_reason_is_refused(self):
        with self.assertRaises(ValueError):
            self.read(answers.text_of(self.sites[0], " "))

    def test_the_list_in_the_tree_is_well_formed(self):
        answers.read(HERE / "answers.toml")


class Samples(unittest.TestCase):
    def site(self, room, file, number):
        return mutant_site.Site(f"prov/{room}/{file}", "f", "constant", number, number + 1, 1, str(number), "", "", 0, number)

    def test_have_as_many_of_each_room_and_of_each_file_its_share(self):
        sites = [self.site("reg", "a", n) for n in range(300)] + [self.site("reg", "b", n) for n in range(100)]
        sites += [self.site("ipc", "c", n) for n in range(10)]
        chosen = sample.sample(sites, 90, 1)
        count = [sum(s.file.endswith(name) for s in chosen) for name in "abc"]
        self.assertEqual(count, [60, 20, 10])

    def test_are_the_same_for_a_seed_and_others_for_another(self):
        sites = [self.site("reg", "a", n) for n in range(300)]
        self.assertEqual(sample.sample(sites, 20, 1), sample.sample(sites, 20, 1))
        self.assertNotEqual(sample.sample(sites, 20, 1), sample.sample(sites, 20, 2))


class Report(unittest.TestCase):
    def test_counts_and_names_survivors(self):
        sites = mutants_of(FIXTURE)[:4]
        states = ["killed", "killed", "killed", "survived"]
        text = report.text([verdict.Verdict(*pair, "unit.reg: exit status 1") for pair in zip(sites, states)], [], [])
        self.assertIn("| reg | 4 | 3 | 1 | 0 | 75.0 % | 0 |", text)
        self.assertIn(str(sites[3]), text)


if __name__ == "__main__":
    unittest.main()
