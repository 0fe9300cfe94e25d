# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The documents that people look for are there, and what they name exists."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import document_names
import source_tree

ROOT = pathlib.Path(os.environ["GAUDI_SOURCE_DIR"])
REQUIRED = ["README.md", ".github/CONTRIBUTING.md", "prov/docs/architecture.md", "prov/docs/protocol.md",
            "prov/docs/device.md", "prov/docs/CHANGELOG.md", "tests/perf/RESULTS.md"]
README_WORDS = 700
PAGES = ["man/fi_gaudi.7", "man/fi_gaudi_params.7", "man/fi_gaudi_counters.7", "man/fi_gaudi_probes.7", "man/fi_gaudi_ext.3"]


class the_documents(unittest.TestCase):
    def test_are_there(self):
        self.assertEqual([name for name in REQUIRED + PAGES if not (ROOT / name).is_file()], [])

    def test_begin_with_a_short_one(self):
        self.assertLessEqual(document_names.word_count(ROOT / "README.md"), README_WORDS)

    def test_name_only_what_the_tree_has(self):
        known = document_names.tree(ROOT)
        self.assertEqual([name for file in REQUIRED for name in document_names.unknown_names(ROOT / file, known)], [])

    def test_have_no_broken_links(self):
        self.assertEqual([link for file in REQUIRED for link in document_names.broken_links(ROOT / file)], [])

    def test_have_the_sections_that_comments_cite(self):
        sources = [path for path in source_tree.sources(ROOT) if path.suffix in document_names.C_SUFFIXES]
        self.assertTrue(any(document_names.CITED.search(source_tree.text(path)) for path in sources))
        self.assertEqual(document_names.missing_sections(ROOT, sources), [])

    def test_have_each_counter_at_its_place(self):
        names = source_tree.text(ROOT / "prov/base/counter_names.hpp")
        page = (ROOT / "man/fi_gaudi_counters.7").read_text(encoding="utf-8")
        for kind in ("domain", "device"):
            table = re.search(rf"std::array {kind}_values\{{(.*?)\n\}};", names, re.DOTALL).group(1)
            section = re.search(rf"^\.SS Values of a {kind}\n(.*?)^\.S", page, re.DOTALL | re.MULTILINE).group(1)
            counters = re.findall(r'value_name\{(\d+), "(\w+)"', table)
            self.assertTrue(counters)
            self.assertEqual(re.findall(r"^\.B (\d+) (\w+)$", section, re.MULTILINE), counters)

    def test_name_only_variables_that_there_are(self):
        known = document_names.tree(ROOT)
        self.assertEqual([name for file in REQUIRED + PAGES
                          for name in document_names.unknown_variables(ROOT / file, known)], [])

    def test_declare_every_function_of_the_header(self):
        header = ROOT / "include/rdma/fi_ext_gaudi.h"
        self.assertEqual(document_names.undocumented_functions(header, ROOT / "man/fi_gaudi_ext.3"), [])

    @unittest.skipUnless(shutil.which("man"), "man (package man-db) is not installed")
    def test_are_man_pages_without_warnings(self):
        for page in sorted((ROOT / "man").iterdir()):
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                                   timeout=60, check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), page.name)
            self.assertGreater(len(shown.stdout), 500, page.name)


class the_checks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.write("prov/room/file.cpp", "// only_said\nint room_function() { return MAX_SIZE; }\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def unknown(self, text):
        document = self.write("document.md", text)
        return document_names.unknown_names(document, document_names.tree(self.root))

    def test_find_a_file_that_is_not_there(self):
        self.assertEqual(self.unknown("`prov/room/file.cpp` `room/file.cpp` `file.cpp` `prov/room`"), [])
        self.assertEqual(len(self.unknown("`prov/room/other.cpp` and `other.hpp` and `prov/cellar/`")), 3)

    def test_find_a_symbol_that_no_code_has(self):
        self.assertEqual(self.unknown("`room_function`, `room_function()`, `MAX_SIZE=3`, `no name here`"), [])
        self.assertEqual(len(self.unknown("`gone`, `room_function::gone`, `gone()`, `GONE=3`, `--gone`")), 5)

    def test_take_a_comment_for_no_code(self):
        self.assertEqual(len(self.unknown("`only_said`")), 1)

    def test_leave_code_blocks_alone(self):
        self.assertEqual(self.unknown("```\n`gone`\n```\n\n    `gone`\n"), [])

    def test_find_broken_links(self):
        document = self.write("a.md", "# One thing\n[a](#one-thing) [b](a.md#one-thing) [c](https://x.org) [d](prov/room)\n")
        self.assertEqual(document_names.broken_links(document), [])
        document = self.write("a.md", "# One thing\n[a](#two) [b](b.md) [c](a.md#two)\n")
        self.assertEqual(len(document_names.broken_links(document)), 3)

    def test_find_cited_sections_that_are_not_there(self):
        self.write("prov/docs/x.md", "## 1 One\n### 1.2 Two\n")
        code = self.write("prov/room/cites.cpp", "// see (prov/docs/x.md, 1\n// and 1.2) and prov/docs/x.md, 1.2, 1.3.\n")
        self.assertEqual(document_names.missing_sections(self.root, [code]), [f"{code}: x.md, 1.3"])
        code = self.write("prov/room/cites.cpp", "// prov/docs/y.md, 1\n")
        self.assertEqual(len(document_names.missing_sections(self.root, [code])), 1)

    def test_find_functions_that_only_one_side_has(self):
        header = self.write("x.h", "struct ops {\n\tint (*here)(int);\n\tint (*gone)(int);\n};\n")
        page = self.write("x.3", ".BI \"int ops\\->here(int \" x );\n.BI \"int ops\\->new(int \" x );\n")
        self.assertEqual(document_names.undocumented_functions(header, page), ["gone", "new"])

    def test_find_variables_that_no_code_has(self):
        self.write("prov/room/p.cpp", 'const char* name = "FI_GAUDI_HERE";\n')
        page = self.write("x.7", "FI_GAUDI_HERE, FI_GAUDI_ and FI_GAUDI_GONE\n")
        known = document_names.tree(self.root)
        self.assertEqual(document_names.unknown_variables(page, known), ["x.7: FI_GAUDI_GONE"])

    def test_count_words_as_wc_does(self):
        self.assertEqual(document_names.word_count(self.write("a.md", "one two\n  three `four`\n")), 4)


if __name__ == "__main__":
    unittest.main()
