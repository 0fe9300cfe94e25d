# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Each source file names the licence, none names a folder of one machine, and the top level stays tidy."""

import os
import pathlib
import re
import tempfile
import unittest

import source_tree

ROOT = pathlib.Path(os.environ["GAUDI_SOURCE_DIR"])
LICENCE = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause"
# Built into the kernel of the virtual machine, whose functions it uses.
KERNEL_LICENCE = "SPDX-License-Identifier: GPL-2.0-only"
KERNEL_MODULES = "tests/vm/fakegaudi/"
# Folders where one person's or one build machine's files are. The slashes are apart so that this file passes.
MACHINE_PATH = re.compile("(?<![A-Za-z0-9_.$}>*])/" + "(work|home|root|mnt|Users)/[A-Za-z0-9_.]")
TOP_LEVEL = re.compile(
    r"CMakeLists\.txt|CMakePresets\.json|prov|include|util|fabtests|tests|man|README\.md|LICENSE.*|\..*|build.*")


def without_licence(root):
    def wanted(path):
        return KERNEL_LICENCE if KERNEL_MODULES in path.as_posix() else LICENCE
    return [str(path) for path in source_tree.sources(root)
            if not any(wanted(path) in line for line in source_tree.text(path).splitlines()[:3])]


def with_machine_path(root):
    return [f"{path}: {match.group(0)}..." for path in source_tree.files(root)
            for match in MACHINE_PATH.finditer(source_tree.text(path))]


class the_tree(unittest.TestCase):
    def test_names_the_licence_in_each_source_file(self):
        self.assertGreater(len(list(source_tree.sources(ROOT))), 0)
        self.assertEqual(without_licence(ROOT), [])

    def test_has_the_licence_texts(self):
        for name in ("LICENSE", "LICENSE.GPL-2.0", "LICENSE.BSD-2-Clause"):
            self.assertGreater((ROOT / name).stat().st_size, 100, name)
        self.assertIn(LICENCE, source_tree.text(ROOT / "LICENSE"))

    def test_names_no_folder_of_one_machine(self):
        self.assertEqual(with_machine_path(ROOT), [])

    def test_keeps_the_top_level_to_the_agreed_entries(self):
        self.assertEqual([e.name for e in ROOT.iterdir() if not TOP_LEVEL.fullmatch(e.name)], [])


class the_checks(unittest.TestCase):
    def test_find_a_missing_licence_line(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "good.cpp").write_text(f"// {LICENCE}\n", encoding="utf-8")
            pathlib.Path(folder, "bad.cpp").write_text("int x;\n", encoding="utf-8")
            self.assertEqual(without_licence(folder), [str(pathlib.Path(folder, "bad.cpp"))])

    def test_find_a_machine_path(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "good.sh").write_text("cd $base/home/x && ls /usr/lib\n", encoding="utf-8")
            self.assertEqual(with_machine_path(folder), [])
            pathlib.Path(folder, "bad.sh").write_text("cd /" + "home/someone/tree\n", encoding="utf-8")
            self.assertEqual(len(with_machine_path(folder)), 1)


if __name__ == "__main__":
    unittest.main()
