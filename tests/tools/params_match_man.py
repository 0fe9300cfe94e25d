# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The FI_GAUDI_* parameters that `fi_info -g gaudi` lists are those of man/fi_gaudi.7, with the same defaults.

Usage: params_match_man.py PROVIDER-FOLDER MAN-PAGE
"""

import os
import re
import subprocess
import sys


def listed(provider_folder):
    """{name: default} as the provider defines them, read from fi_info."""
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


def documented(man_page):
    """{name: default} as the man page gives them: ".B FI_GAUDI_X", then a line "Default: VALUE."."""
    with open(man_page, encoding="utf-8") as file:
        section = file.read().split("\n.SH RUNTIME PARAMETERS\n")[1].split("\n.SH ")[0]
    found = {}
    for entry in section.split("\n.TP\n")[1:]:
        name = re.match(r"\.B (FI_GAUDI_\w+)\n", entry)
        default = re.search(r"^Default: (?:\\fB)?(.*?)(?:\\fR)?\.$", entry, flags=re.MULTILINE)
        found[name.group(1) if name else entry.splitlines()[0]] = default.group(1) if default else None
    return found


def main(provider_folder, man_page):
    code, page = listed(provider_folder), documented(man_page)
    problems = [f"{name}: only `fi_info -g gaudi` has it" for name in sorted(code.keys() - page.keys())]
    problems += [f"{name}: only the man page has it" for name in sorted(page.keys() - code.keys())]
    problems += [f"{name}: default {code[name]} in `fi_info -g gaudi`, {page[name]} in the man page"
                 for name in sorted(code.keys() & page.keys()) if code[name] != page[name]]
    if not code:
        problems.append("`fi_info -g gaudi` lists no FI_GAUDI_* parameter: was the provider loaded?")
    print("\n".join(problems) or f"{len(code)} parameters match")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
