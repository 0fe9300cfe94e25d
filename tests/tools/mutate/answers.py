# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""answers.toml: mutants that no test kills, each with a reason. They are known by their text and function, not by their line.

[[mutant]]
file = 'prov/ipc/byte_ring.cpp'
function = 'ring_writer::reserve'
operator = 'relational'
source = 'left < record(length)'
change = 'left <= record(length)'      # '' where it is removed
nth = 0                                # of those that read the same; may be left out
reason = 'why no test can, or need, tell it from the original'
"""

import json
import tomllib

FIELDS = ("file", "function", "operator", "source", "change")


def key_of(entry):
    return tuple(entry[f] for f in FIELDS) + (entry.get("nth", 0),)


def read(path):
    """{key: reason}"""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []) if path.exists() else []
    without = [e for e in entries if not e.get("reason", "").strip()]
    if without:
        raise ValueError(f"{path}: no reason for {without[0]}")
    return {key_of(e): e["reason"] for e in entries}


def quoted(text):
    """TOML's literal strings are the easiest to read; its others are written as those of JSON."""
    return f"'{text}'" if "'" not in text else json.dumps(text, ensure_ascii=False)


def text_of(site, reason):
    """An entry for the file."""
    lines = ["[[mutant]]"]
    for name, value in zip(FIELDS, site.key):
        lines.append(f"{name} = {quoted(value)}")
    if site.nth:
        lines.append(f"nth = {site.nth}")
    lines.append(f"reason = {quoted(reason)}")
    return "\n".join(lines) + "\n"


def split(sites, answered):
    """(those to run, those with a reason, the keys that are no mutant's any more in the files that were looked at)"""
    keys = {s.key for s in sites}
    files = {s.file for s in sites}
    stale = [key for key in answered if key[0] in files and key not in keys]
    return [s for s in sites if s.key not in answered], [s for s in sites if s.key in answered], stale
