# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads the lists of MPICH's test suite (test/mpi/*/testlist*); RunList in its test/mpi/runtests.in defines their format."""
import dataclasses
import pathlib

# What runtests takes where a line does not say it.
DEFAULT_RANKS = 2
DEFAULT_TIME_LIMIT = 180


@dataclasses.dataclass
class Test:
    folder: str  # of the program, below test/mpi
    program: str
    ranks: int = DEFAULT_RANKS
    arguments: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    mpiexec: list = dataclasses.field(default_factory=list)
    time_limit: int = DEFAULT_TIME_LIMIT  # seconds
    memory: float = 0  # GB, of all ranks
    expected_failure: str = ""
    result: str = ""  # how the result is judged, where it is not by "No Errors"

    @property
    def name(self):
        environment = [f"{key}={value}" for key, value in self.environment.items()]
        return " ".join([f"{self.folder}/{self.program}", str(self.ranks), *self.arguments, *environment, *self.mpiexec])

    @property
    def directory(self):
        return self.folder.split("/")[0]


def apply_option(test, key, value):
    if key == "arg":
        test.arguments.append(value)
    elif key == "env":
        name, _, setting = value.partition("=")
        test.environment[name] = setting
    elif key == "mpiexecarg":
        test.mpiexec.append(value)
    elif key == "timeLimit":
        test.time_limit = int(value)
    elif key == "mem":
        test.memory = float(value)
    elif key == "xfail":
        test.expected_failure = value
    elif key == "resultTest":
        test.result = value
    elif key not in ("strict", "mpix", "lock", "init"):  # say nothing about a run with MPICH, one test at a time
        raise ValueError(f"{test.folder}/{test.program}: unknown option {key}")


def parse_line(folder, line):
    """The test, or None where the line has none. A program may be in a folder below."""
    words = line.partition("#")[0].split()
    if not words or words[0].startswith("!"):
        return None
    below, _, program = words[0].rpartition("/")
    test = Test("/".join(filter(None, [folder, below])), program)
    if len(words) > 1:
        test.ranks = int(words[1])
    for word in words[2:]:
        key, equals, value = word.partition("=")
        if equals:
            apply_option(test, key, value)
    return test


def read_folder(root, folder, lists):
    """All tests of a folder and of those folders that its list names."""
    tests = []
    for name in lists:
        path = pathlib.Path(root, folder, name)
        if not path.is_file():
            continue
        for line in path.read_text().splitlines():
            test = parse_line(folder, line)
            if test is None:
                continue
            if pathlib.Path(root, folder, test.program).is_dir():
                tests += read_folder(root, f"{folder}/{test.program}", lists)
            else:
                tests.append(test)
    return tests


def judge(test, status, output):
    """Why a run failed, or an empty string; as runtests does: "No Errors" once, nothing else, and status 0."""
    if test.result:
        return f"result test {test.result} is not known here"
    lines = [line for line in output.splitlines() if line.strip()]
    others = [line for line in lines if line.strip() not in ("No Errors", "No errors", "Test Passed")]
    if others:
        return f"unexpected output: {others[0].strip()[:120]}"
    if not any(line.strip().lower() == "no errors" for line in lines):
        return "ended without No Errors"
    return f"exit status {status}" if status else ""
