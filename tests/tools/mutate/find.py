# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""All mutants of some rooms of the provider."""

import concurrent.futures
import json
import os
import pathlib
import shlex

import clang_index
import walk
from mutant_site import number_all


def arguments_of(command):
    """What libclang needs of a compiler's command line."""
    words = shlex.split(command)[1:]
    return [w for w in words[:words.index("-o")] if not w.startswith("-W")]


def sources(unit, folder):
    """The unit's own files below a folder."""
    names = {unit.spelling} | {i.include.name for i in unit.get_includes()}
    return sorted(n for n in names if pathlib.Path(n).is_relative_to(folder))


def mutants_of_unit(command, root, room):
    root = pathlib.Path(root)
    unit = clang_index.parse(command["file"], arguments_of(command["command"]))
    files = {path: str(pathlib.Path(path).relative_to(root)) for path in sources(unit, root / "prov" / room)}
    found = walk.mutants_of(unit, files)
    for site in found:
        site.unit = command["file"]
    return found


def mutants(root, rooms, commands):
    """Those of every file of the rooms that compile_commands.json names, wherever in a room it is, and of the rooms' headers
    that they include."""
    wanted = [(c, root, room) for c in json.loads(commands.read_text()) for room in rooms
              if pathlib.Path(c["file"]).is_relative_to(root / "prov" / room)]
    found = {}
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for sites in pool.map(mutants_of_unit, *zip(*wanted)):
            found.update({(s.file, s.start, s.end, s.operator, s.change): s for s in sites})
    files = [str(path.relative_to(root)) for path in (root / "prov").rglob("*.[ch]pp")]
    return number_all(list(found.values()), files)
