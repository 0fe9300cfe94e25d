# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The parameter table (prov/base/params.hpp) is what `fi_info -g gaudi` lists and what man/fi_gaudi_params.7 documents.

Usage: params_match_man.py [--write] PROVIDER-FOLDER TABLE-PROGRAM MAN-PAGE

In the man page each entry begins with what the table says: the help, the default and the range. What follows (.IP) is written
by hand. --write puts the table's words into the page, and keeps the rest; a new parameter comes at its place in the table.
"""

import os
import re
import subprocess
import sys
import textwrap

BEGIN, END = ".\\\" begin of the parameters\n", ".\\\" end of the parameters\n"


def table(program):
    """[(variable, default, min, max, help)] in the table's order."""
    text = subprocess.run([program], check=True, capture_output=True, text=True, timeout=60).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    return [("FI_GAUDI_" + name.upper(), default, int(least), int(most), words)
            for name, default, least, most, words in rows]


def listed(provider_folder):
    """{variable: default} as the provider defines them, read from fi_info."""
    text = subprocess.run(
        ["fi_info", "-g", "gaudi"], env={**os.environ, "FI_PROVIDER_PATH": provider_folder},
        check=True, capture_output=True, text=True, timeout=60).stdout
    # "# FI_GAUDI_X: type", then comment lines with the help, whose end is "(default: VALUE)".
    entries = re.split(r"^# (?=FI_\w+: )", text, flags=re.MULTILINE)
    found = {}
    for entry in entries:
        name = re.match(r"(FI_GAUDI_\w+):", entry)
        if name:
            words = " ".join(line.lstrip("# ") for line in entry.splitlines())
            default = re.search(r"\(default: (.*?)\)", words)
            found[name.group(1)] = default.group(1) if default else None
    return found


def number(value):
    """As a user would write it."""
    for suffix, unit in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if value >= max(unit, 4096) and value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)


def generated(row):
    """The man page's beginning of an entry."""
    name, default, least, most, words = row
    lines = textwrap.wrap(words[0].upper() + words[1:] + ".", 120, break_on_hyphens=False)
    # Long values break behind their signs.
    text = re.sub(r"([;,=])(?=\S)", r"\1\\:", "\n".join(lines).replace("-", "\\-"))
    value = f"Default: \\fB{default}\\fR." if default else "Default: empty."
    if most:
        value += f" Range: {number(least)} to {number(most)}."
    return f".TP\n.B {name}\n{text}\n{value}\n"


def documented(page):
    """{variable: its whole entry} between the marks."""
    entries = page.split(BEGIN)[1].split(END)[0].split(".TP\n.B ")[1:]
    return {entry.split("\n")[0]: ".TP\n.B " + entry for entry in entries}


def written(page, rows):
    """The page with the table's words."""
    old = documented(page)
    entries = []
    for row in rows:
        details = old.get(row[0], "").find("\n.IP\n")
        entries.append(generated(row) + (old[row[0]][details + 1:] if details >= 0 else ""))
    return page.split(BEGIN)[0] + BEGIN + "".join(entries) + END + page.split(END)[1]


def differences(rows, listing, page):
    """What does not agree, a line each."""
    problems = [] if rows else ["the table is empty"]
    defaults = {row[0]: row[1] or "empty" for row in rows}
    for name in sorted(defaults.keys() | listing.keys()):
        if (listing.get(name) or "empty") != defaults.get(name) or name not in listing:
            problems.append(f"{name}: default {defaults.get(name)} in the table, {listing.get(name)} in `fi_info -g gaudi`")
    entries = documented(page)
    problems += [f"{name}: only the man page has it" for name in sorted(entries.keys() - defaults.keys())]
    problems += [f"{row[0]}: the man page does not begin with\n{generated(row)}" for row in rows
                 if not entries.get(row[0], "").startswith(generated(row))]
    if not problems and list(entries) != list(defaults):
        problems.append("the man page has another order")
    return problems


def main(arguments):
    write = arguments[0] == "--write"
    provider_folder, program, man_page = arguments[write:]
    rows = table(program)
    with open(man_page, encoding="utf-8") as file:
        page = file.read()
    if write:
        with open(man_page, "w", encoding="utf-8") as file:
            file.write(written(page, rows))
        return 0
    problems = differences(rows, listed(provider_folder), page)
    print("\n".join(problems) or f"{len(rows)} parameters match")
    if problems:
        print(f"params_match_man.py --write {provider_folder} {program} {man_page} corrects the man page")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
