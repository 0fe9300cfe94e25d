# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How large a class may be, which way the components of a room may call each other, and who may reach for what belongs
to the process.

A component is a header with the .cpp file of its name, and those .cpp files without a header of their own whose first
include of the room it is. Who calls a component has to include it, so where no includes go in a circle, no calls do;
upwards there are observers, which the lower component declares."""

import pathlib
import re

MAX_METHODS = 40
MAX_MEMBERS = 20
# (methods, data members) of classes that are larger still. They may only shrink: who divides one takes it out.
LARGER = {
    # Records of values that belong together.
    "params": (40, 21),
    "endpoint_settings": (40, 23),
}
# Rooms whose components are checked one by one, with the rooms inside them: each includes itself and those before it, and
# what lies in the folder itself composes them all. Rooms in a tuple of their own do not include each other.
LAYERED_ROOMS = {
    "proto": ("wire", "operation", "match", "session", "peer", "connection", "channel", "transfer", "recovery", "message",
              "rma"),
    # The two types of endpoint know nothing of each other.
    "fi": ("common", "info", ("rdm", "msg")),
}

# Rooms whose objects are handed the parameters and the devices (fi::provider_context), the one file of them that finds the
# process's, and the calls without an object of ours that ask it to.
HANDED_DOWN_ROOMS = ("fi", "proto")
FINDS_THE_PROCESS = "fi/common/provider_context.cpp"
WITHOUT_AN_OBJECT = {"fi/getinfo.cpp", "fi/open_fabric.cpp"}
GLOBAL = re.compile(r"::\s*instance\s*\(|\bparams\s*::\s*(?:get|parsed)\s*\(|\bper_process\s*<")
CONTEXT_OF_PROCESS = re.compile(r"\bprovider_context\s*::\s*(?:of_process|checked)\s*\(")

# What moves payload is in prov/copy: the protocol says from where to where. Packets' own fields are copied in their place.
MOVES_PAYLOAD = re.compile(r"\b(?:memcpy|memmove)\s*\([^;]*(?:payload|\bhost\s*\(|memory\.)|\bprocess_vm_|"
                           r"\bcma\s*\(\)\s*->|\bloop_?\s*->\s*(?:copy|read)\s*\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?([A-Za-z_]\w*)(?:\s+final)?\s*(?::[^;{]*)?\{")
NOT_A_MEMBER = re.compile(r"^(?:using|typedef|friend|static_assert|template\s*<[^>]*>\s*(?:class|struct)|enum|class|struct|union|static\s+constexpr)\b")


def without_comments(text):
    """The code, with comments, literals and preprocessor lines blanked."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', '""', text)


def end_of_block(text, opening):
    """Where the block ends that begins with the brace at `opening`."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise ValueError("a brace is not closed")


def declarations(body):
    """The declarations in a class's body, each without what it has in braces."""
    at, begin, said = 0, 0, ""
    while at < len(body):
        if body[at] == "{":
            said += body[begin:at] + "{}"
            at = end_of_block(body, at)
            begin = at + 1
            # A function ends with its block; a member's initialiser and a nested type are followed by a semicolon.
            if not re.match(r"\s*(?:;|,|catch\b|\w+\s*(?:\{|;|=))", body[begin:]):
                yield said
                said = ""
        elif body[at] == ";":
            yield said + body[begin:at]
            said, begin = "", at + 1
        at += 1


def is_method(declaration):
    """Whether it declares a function that somebody wrote: deleted and defaulted ones are none."""
    without_attributes = re.sub(r"\[\[[^\]]*\]\]|\b(?:GAUDI_\w+|alignas|explicit)\s*\([^)]*\)", "", declaration)
    before_value = re.split(r"=(?!=)", without_attributes.replace("operator=", "operator_"))[0]
    return "(" in re.sub(r"<[^<>]*>", "", before_value) and not re.search(r"=\s*(?:delete|default)\s*$", declaration)


def counts(body):
    """(methods, data members) of a class with this body."""
    methods = members = 0
    for declaration in declarations(body):
        said = re.sub(r"\b(?:public|private|protected)\s*:", "", declaration).strip()
        said = re.sub(r"^\[\[[^\]]*\]\]\s*", "", said)
        if not said or re.search(r"=\s*(?:delete|default)\s*$", said):
            continue
        if re.match(r"^(?:struct|union|class|enum)\b[^{]*\{\}\s*\w+", said):
            members += 1  # of a type without a name
        elif NOT_A_MEMBER.match(said) and "(" not in said.split("{")[0]:
            continue
        elif NOT_A_MEMBER.match(said) and re.match(r"^(?:using|typedef|friend|static_assert|static\s+constexpr)\b", said):
            continue
        elif is_method(said):
            methods += 1
        else:
            members += 1
    return methods, members


def classes(text):
    """Yields (name, methods, data members) of each class that is defined in a file, nested ones as well."""
    code = without_comments(text)
    for match in CLASS.finditer(code):
        opening = match.end() - 1
        yield (match.group(1), *counts(code[opening + 1:end_of_block(code, opening)]))


def too_large(prov):
    """One line for each class under the folder `prov` that has more than it may have."""
    found = []
    for path in sorted(pathlib.Path(prov).glob("*/**/*.?pp")):
        for name, methods, members in classes(path.read_text(encoding="utf-8")):
            max_methods, max_members = LARGER.get(name, (MAX_METHODS, MAX_MEMBERS))
            if methods > max_methods:
                found.append(f"{path}: {name} has {methods} methods, more than {max_methods}: divide it")
            if members > max_members:
                found.append(f"{path}: {name} has {members} data members, more than {max_members}: divide it")
    return found


def shrunk(prov):
    """The names in LARGER that say more than the classes have by now."""
    found = set(LARGER)
    for path in pathlib.Path(prov).glob("*/**/*.?pp"):
        for name, methods, members in classes(path.read_text(encoding="utf-8")):
            max_methods, max_members = LARGER.get(name, (0, 0))
            if methods == max_methods > MAX_METHODS or members == max_members > MAX_MEMBERS:
                found.discard(name)
    return found


def component_of(path, room):
    """The name of the component that the file is of."""
    if path.suffix == ".hpp" or path.with_suffix(".hpp").exists():
        return path.stem
    for header in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if header.startswith(room + "/"):
            return pathlib.PurePath(header).stem
    return path.stem


def component_edges(prov, room):
    """Which components of a room include which others of it."""
    edges = {}
    for path in sorted(pathlib.Path(prov, room).glob("**/*.?pp")):
        here = component_of(path, room)
        for header in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = pathlib.PurePath(header).stem
            if header.startswith(room + "/") and target != here:
                edges.setdefault(here, set()).add(target)
    return edges


def inner_room(path, room):
    """The room inside `room` that a path below prov/ is in, or "" for the folder itself."""
    return "/".join(pathlib.PurePath(path).parts[1:-1]) if pathlib.PurePath(path).parts[0] == room else None


def inner_ranks(room):
    """How high each room inside `room` stands, the folder itself ("") above all."""
    layers = [(layer,) if isinstance(layer, str) else layer for layer in LAYERED_ROOMS[room]]
    return {name: rank for rank, layer in enumerate([*layers, ("",)]) for name in layer}


def upward_includes(prov, room):
    """One line for each include inside a room that its order of inner rooms does not allow, and for each unknown inner room."""
    ranks = inner_ranks(room)
    found = []
    for path in sorted(pathlib.Path(prov, room).glob("**/*.?pp")):
        here = inner_room(path.relative_to(prov), room)
        if here not in ranks:
            found.append(f"{path}: {room}/{here} is not a known room; give it its place in {__file__}")
            continue
        for header in INCLUDE.findall(path.read_text(encoding="utf-8")):
            there = inner_room(header, room)
            if there in ranks and there != here and ranks[there] >= ranks[here]:
                found.append(f"{path}: {room}/{here} must not include {header}")
    return found


def payload_copies(prov):
    """One line for each place in prov/proto that copies payload by itself."""
    found = []
    for path in sorted((pathlib.Path(prov) / "proto").glob("**/*.?pp")):
        for match in MOVES_PAYLOAD.finditer(without_comments(path.read_text(encoding="utf-8"))):
            found.append(f"{path}: copies payload, which is for copy::copy_router and copy::by_cpu: {match.group(0)}")
    return found


def global_reaches(prov):
    """One line for each place under `prov` that reaches for what it should be handed."""
    found = []
    for path in sorted(path for room in HANDED_DOWN_ROOMS for path in (pathlib.Path(prov) / room).rglob("*")
                       if path.suffix in {".hpp", ".cpp"}):
        name = path.relative_to(prov).as_posix()
        if name == FINDS_THE_PROCESS:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.split("//")[0]
            if GLOBAL.search(code) or (name not in WITHOUT_AN_OBJECT and CONTEXT_OF_PROCESS.search(code)):
                found.append(f"{path}:{number}: takes the process's, not what it is handed (fi::provider_context): {code.strip()}")
    return found
