# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A lock that is not taken: clang's thread safety analysis, which lint.tidy runs, is a test of that."""

import json

import clang_index
from find import arguments_of


def without_lock(site, text):
    """The file's text without the declaration: the site is what stands in its parentheses."""
    end = text.index(b";", site.end)
    return text[:site.end + 1 - len(site.source.encode())] + text[end:]


def complaint(site, root, commands):
    """What the analysis says of the mutant, or None."""
    command = next(c["command"] for c in json.loads(commands.read_text()) if c["file"] == site.unit)
    path = root / site.file
    text = without_lock(site, path.read_bytes()).decode()
    unit = clang_index.parse(site.unit, [*arguments_of(command), "-Wthread-safety"], unsaved_files=[(str(path), text)])
    said = [d.spelling for d in unit.diagnostics if d.option.startswith("-Wthread-safety")]
    return said[0] if said else None
