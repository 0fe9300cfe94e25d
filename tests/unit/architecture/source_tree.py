# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The files of a source tree that people wrote, for the checks that read them."""

import os
import pathlib

SOURCE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".py", ".sh", ".cmake", ".1", ".3", ".7"}
SOURCE_NAMES = {"CMakeLists.txt", "run"}


def files(root):
    """Yields the path of each file under `root`, without build folders and what git keeps."""
    root = pathlib.Path(root)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            f for f in folders
            if f not in {".git", ".cache", "__pycache__"} and not (
                f.startswith("build") and pathlib.Path(folder) == root))
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.is_file() and not path.is_symlink() and name != ".git":
                yield path


def sources(root):
    """Yields the files that carry a licence line: code, scripts, build files and man pages."""
    for path in files(root):
        if path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES:
            yield path


def text(path):
    """The text of a file; bytes that are not UTF-8 are replaced, so that any file can be read."""
    return path.read_text(encoding="utf-8", errors="replace")
