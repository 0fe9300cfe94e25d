# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What documents name: files, symbols, sections and links, and which of these the tree does not have.

The convention: a name in backticks is of this source tree. It is a path (of the root, of prov/ or of include/, or a file's bare name), a
symbol (`name`, `room::name`, `name()`, `VARIABLE=value`, `ctest.name`) or an option (`--name`). Spans that hold
a blank or other signs, code blocks, absolute paths and what a build makes (build/) are not checked. Names of other projects
are written in italics.
"""

import pathlib
import re

import source_tree

CODE_SUFFIXES = {".cpp", ".hpp", ".c", ".h", ".py", ".sh", ".cmake", ".in", ".json", ".map", ".list", ".test"}
C_SUFFIXES = {".cpp", ".hpp", ".c", ".h"}
FILE_SUFFIX = r"\.(?:cpp|hpp|c|h|py|sh|md|txt|json|list|test|in|supp|map|[137])"

FENCE = re.compile(r"^```.*?^```\s*?$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^(?: {4}|\t)(?! *[-*|\d]).*$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
PATH = re.compile(rf"[\w.+-]+(?:/[\w.+-]+)+/?|[\w.+-]+/|[\w+-][\w.+-]*{FILE_SUFFIX}")
SYMBOL = re.compile(r"~?[A-Za-z_]\w*(?:(?:::|\.)~?\w+)*(?:\(\))?")
SETTING = re.compile(r"([A-Za-z_]\w*)=\S*")
OPTION = re.compile(r"--[a-z][\w-]*")
WORD = re.compile(r"[A-Za-z_]\w*")
CITED = re.compile(r"prov/docs/(\w+)\.md, (\d+(?:\.\d+)?(?:(?:, | and )\d+(?:\.\d+)?)*)")


def prose(text):
    """The text without code blocks."""
    return INDENTED.sub("", FENCE.sub("", text))


def without_comments(path, text):
    """The text of a source file without what is only said about it."""
    if path.suffix in C_SUFFIXES:
        return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"(?m)(?:^|\s)#(?!include|define|if)[^\n]*", " ", text)


class tree:
    """The files of a source tree and the words of its code."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.names, self.words, self.options = set(), set(), set()
        for path in source_tree.files(root):
            self.names.add(path.name)
            if path.suffix in CODE_SUFFIXES or path.name == "CMakeLists.txt":
                code = without_comments(path, source_tree.text(path))
                self.words.update(WORD.findall(code))
                self.options.update(OPTION.findall(code))

    def has_path(self, name):
        return name in self.names or any((self.root / base / name).exists() for base in ("", "prov", "include"))

    def has_symbol(self, name):
        return all(part in self.words for part in WORD.findall(name))

    def has(self, span):
        """Whether the tree has what a span names; None: it names nothing that could be checked."""
        if span.startswith(("/", "build/", ".")):
            return None
        if OPTION.fullmatch(span):
            return span in self.options
        if PATH.fullmatch(span):
            return self.has_path(span)
        setting = SETTING.fullmatch(span)
        if setting:
            return setting.group(1) in self.words
        return self.has_symbol(span) if SYMBOL.fullmatch(span) else None


def unknown_names(document, known):
    """The spans of a document that name what the tree does not have, with their lines."""
    text = prose(source_tree.text(document))
    return [f"{document.name}: `{span}`" for span in dict.fromkeys(SPAN.findall(text)) if known.has(span) is False]


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def broken_links(document):
    """The links of a document to files or headings that are not there."""
    text = FENCE.sub("", source_tree.text(document))
    broken = []
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        file, _, heading = link.partition("#")
        target = document.parent / file if file else document
        if not target.exists() or (
                heading and heading not in map(anchor, HEADING.findall(FENCE.sub("", source_tree.text(target))))):
            broken.append(f"{document.name}: {link}")
    return broken


def missing_sections(root, paths):
    """Sections of prov/docs that comments cite and that are not there."""
    missing = []
    for path in paths:
        text = re.sub(r"\s*\n\s*(?://+|#) ?", " ", source_tree.text(path))
        for name, numbers in CITED.findall(text):
            document = pathlib.Path(root, "prov/docs", name + ".md")
            headings = HEADING.findall(source_tree.text(document)) if document.exists() else []
            missing += [f"{path}: {name}.md, {number}" for number in re.findall(r"\d+(?:\.\d+)?", numbers)
                        if not any(h.split(" ")[0] == number for h in headings)]
    return missing


def undocumented_functions(header, page):
    """Members of a structure of functions that a man page does not declare, and those that only the page has."""
    members = set(re.findall(r"^\tint \(\*(\w+)\)\(", source_tree.text(header), re.MULTILINE))
    declared = set(re.findall(r"ops\\->(\w+)\(", source_tree.text(page)))
    return sorted(members ^ declared)


def unknown_variables(document, known):
    """FI_GAUDI_ names of a document that no code has, whole or as a parameter (mr_window)."""
    text = re.sub(r"^\.TH .*", "", source_tree.text(document), flags=re.MULTILINE)
    named = re.findall(r"\bFI_GAUDI_([A-Z0-9_]*[A-Z0-9])\b", text)
    return [f"{document.name}: FI_GAUDI_{name}" for name in dict.fromkeys(named)
            if not known.words & {f"FI_GAUDI_{name}", name.lower()}]


def word_count(document):
    """As wc -w counts."""
    return len(source_tree.text(document).split())
