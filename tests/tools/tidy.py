#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs clang-tidy over prov/ and util/:  tidy.py SOURCE-FOLDER WORK-FOLDER

Most of what clang-tidy does for a file is to read its headers, so it is given unity sources, each of which includes the
files of one room. A unity source that had no finding is not looked at again before one of the files that it reads, the
rules or clang-tidy itself change: a stamp named by their hash lies in the user's cache folder, where each clone finds it.
Exit status: 0 nothing found, 1 something, printed as clang-tidy prints it.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

TIDY, COMPILER = "clang-tidy-14", "clang++-14"


def configure(source: pathlib.Path, work: pathlib.Path) -> list[dict]:
    """The compile commands of a unity build without tests."""
    done = subprocess.run(
        ["cmake", "-S", source, "-B", work, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={COMPILER}", "-DCMAKE_C_COMPILER=clang-14",
         "-DGAUDI_TESTS=OFF", "-DGAUDI_CCACHE=", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
         "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"],
        capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"CMake failed in {work}:\n{done.stdout}{done.stderr}")
    commands = json.loads((work / "compile_commands.json").read_text())
    # The largest first: a long one at the end would have one CPU while the others have nothing.
    return sorted((c for c in commands if c["file"].endswith((".cxx", ".cpp"))),
                  key=lambda c: -pathlib.Path(c["file"]).read_text().count("#include"))


def key_of(command: dict, source: pathlib.Path, rules: bytes) -> str:
    """What the verdict on one unity source depends on, whatever folder the clone is in."""
    arguments = shlex.split(command["command"])
    arguments = arguments[:arguments.index("-o")] + arguments[arguments.index("-o") + 2:]
    listed = subprocess.run([*arguments, "-MM", "-MT", "x"], cwd=command["directory"], capture_output=True, text=True, check=True)
    digest = hashlib.sha256(rules)
    digest.update(" ".join(arguments).replace(str(source), "").encode())
    for name in sorted(set(listed.stdout.replace("\\\n", " ").split()[1:])):
        path = pathlib.Path(command["directory"], name).resolve()
        if path.is_relative_to(source) and "Unity" not in path.parts:
            digest.update(str(path.relative_to(source)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check(command: dict, source: pathlib.Path, work: pathlib.Path, stamps: pathlib.Path, rules: bytes) -> str | None:
    """What clang-tidy finds in one unity source; None: nothing; "": nothing, and that was known."""
    stamp = stamps / key_of(command, source, rules)
    if stamp.exists():
        return ""
    done = subprocess.run(
        [TIDY, "-p", work, "-quiet", f"-header-filter=^{source}/(prov|include|util)/", f"--config-file={source}/.clang-tidy",
         "--checks=-bugprone-suspicious-include",  # that a unity source includes .cpp files is its purpose
         command["file"]], capture_output=True, text=True)
    if done.returncode == 0 and "warning:" not in done.stdout:
        stamp.touch()
        return None
    return done.stdout + "".join(
        line for line in done.stderr.splitlines(keepends=True) if "error" in line)


def main() -> int:
    source, work = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    stamps = cache / "gaudi-fi" / "tidy"
    stamps.mkdir(parents=True, exist_ok=True)
    rules = (source / ".clang-tidy").read_bytes() + subprocess.run(
        [TIDY, "--version"], capture_output=True, check=True).stdout
    commands = configure(source, work)
    known = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda c: check(c, source, work, stamps, rules), commands):
            known += found == ""
            if found:
                failed += 1
                print(found)
    print(f"clang-tidy: {len(commands)} unity sources, {known} unchanged since they were clean, {failed} with findings")
    return 1 if failed or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
