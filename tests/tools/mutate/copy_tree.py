# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A copy of the tree with all mutants compiled into it."""

import os
import pathlib
import re
import subprocess

from rewrite import Rewritten

RUNTIME = "tests/tools/mutate/runtime"
# Assertions are on, as in the sanitizers' builds, and count as tests.
FLAGS = "-w -fdiagnostics-column-unit=byte -include {copy}/" + RUNTIME + "/mutant.hpp"
ERROR = re.compile(r"^(\S+?):(\d+):(\d+): (error|fatal error|note|required)|^(\S+?):(\d+):(\d+):\s+required", re.M)
# In the copy each test program tells which of its cases runs.
LISTENERS = """
foreach(room IN LISTS GAUDI_ROOMS)
  if(TARGET unit_${room})
    target_sources(unit_${room} PRIVATE ${PROJECT_SOURCE_DIR}/""" + RUNTIME + """/cases.cpp)
  endif()
endforeach()
"""


class CopyOfTree:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.build_folder = folder / "build"
        self.rewritten = {}

    def write(self, name, content):
        """Only where it differs, so that as little as possible is compiled again."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)

    def fill(self, sites):
        """What git knows of the tree, mutants in it, and what they need."""
        by_file = {}
        for site in sites:
            by_file.setdefault(site.file, []).append(site)
        listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=self.root, check=True,
                                capture_output=True, text=True)
        for name in listed.stdout.splitlines():
            path = self.root / name
            if not path.is_file():
                continue
            content = path.read_bytes()
            if name in by_file:
                self.rewritten[name] = Rewritten(content, by_file[name])
                content = self.rewritten[name].text
            if name == "tests/unit/CMakeLists.txt":
                content += LISTENERS.encode()
            self.write(name, content)
        self.write("prov/base/mutant.cpp", (self.root / RUNTIME / "mutant.cpp").read_bytes())

    def configure(self):
        subprocess.run(["cmake", "--preset", "release", "-DGAUDI_WERROR=OFF", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1",
                        "-DCMAKE_CXX_FLAGS=" + FLAGS.format(copy=self.folder)],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def build(self, targets, *options):
        """What the compiler says, or None where it has nothing against it."""
        done = subprocess.run(["cmake", "--build", self.build_folder, "--target", *targets, "--", *options],
                              capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        return None if done.returncode == 0 else done.stdout + done.stderr

    def blamed(self, said):
        """The mutants at the places that the compiler names."""
        found = {}
        for match in ERROR.finditer(said):
            name, line, column = match.group(1, 2, 3) if match.group(1) else match.group(5, 6, 7)
            path = pathlib.Path(os.path.normpath(self.build_folder / name))
            if match.group(4) == "note" or not path.is_relative_to(self.folder):
                continue
            file = self.rewritten.get(str(path.relative_to(self.folder)))
            for site in file.at(int(line), int(column)) if file else []:
                found[site.id] = site
        return found


def build(copy, sites, targets, say):
    """The mutants that compile, all in one build. What else does not compile is an error."""
    known = copy.folder.parent / "not-compiled"
    refused = set(known.read_text().split()) if known.exists() else set()
    copy.fill([s for s in sites if s.id not in refused])
    copy.configure()
    while (said := copy.build(targets, "-k", "0")) is not None:
        blamed = set(copy.blamed(said)) - refused
        if not blamed:
            raise RuntimeError("the copy does not compile:\n" + said[-8000:])
        say(f"  {len(blamed)} do not compile and are left out")
        refused |= blamed
        # For the next run.
        known.write_text("\n".join(sorted(refused)) + "\n")
        copy.fill([s for s in sites if s.id not in refused])
    return [s for s in sites if s.id not in refused]
