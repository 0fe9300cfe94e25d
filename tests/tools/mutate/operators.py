# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What is changed. Each function takes a cursor of libclang and the text of its file, and yields (operator, change, template):
the change is for people, and the template for the compiler (mutant_site.Site)."""

import re

from clang_index import cindex

K = cindex.CursorKind
T = cindex.TypeKind

BINARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "%": "/",
          "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
COMPOUND = {"+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}
LOGICAL = {"&&": "||", "||": "&&"}
RELATIONAL = {"<", "<=", ">", ">=", "==", "!="}
LOCKS = re.compile(r"\b(scoped_lock|lock_guard|unique_lock|scoped_domain_lock)\b")
REMOVED = "(gaudi_mutant({number}) ? static_cast<void>(0) : static_cast<void>({inner}))"


def escaped(text):
    return text.replace("{", "{{").replace("}", "}}")


def either(change):
    return "(gaudi_mutant({number}) ? (" + escaped(change) + ") : ({inner}))"


def sign_between(text, left, right):
    return text.between(left, right).strip()


def binary(cursor, text):
    sides = list(cursor.get_children())
    if len(sides) != 2:
        return
    left, right = map(text.of, sides)
    sign = sign_between(text, *sides)
    if sign in LOGICAL:
        change = f"({left}) {LOGICAL[sign]} ({right})"
        yield "logical", f"{left} {LOGICAL[sign]} {right}", either(change)
    elif sign in BINARY or sign in COMPOUND:
        change = f"{left} {(BINARY | COMPOUND)[sign]} {right}"
        yield ("relational" if sign in RELATIONAL else "arithmetic"), change, either(change)


def comparison_of_objects(cursor, text):
    """== and != that are functions: the other one is what they do not say."""
    sides = list(cursor.get_children())
    if cursor.spelling not in ("operator==", "operator!=") or len(sides) != 3:
        return
    sign = sign_between(text, sides[0], sides[2])
    if sign in ("==", "!="):
        yield "relational", f"{text.of(sides[0])} {BINARY[sign]} {text.of(sides[2])}", either(f"!({text.of(cursor)})")


def unary(cursor, text):
    source = text.of(cursor)
    for sign, other in (("++", "--"), ("--", "++")):
        if source.startswith(sign):
            yield "arithmetic", other + source[2:], either(other + source[2:])
        elif source.endswith(sign):
            yield "arithmetic", source[:-2] + other, either(source[:-2] + other)
    if source.startswith("!"):
        yield "negation", source[1:].strip(), either(f"static_cast<bool>({source[1:]})")


def integer(cursor, text):
    source = text.of(cursor)
    if re.fullmatch(r"(0x[0-9a-fA-F']+|[0-9']+)[uUlLzZ]*", source):
        yield "constant", f"{source} + 1", either(f"{source} + 1")
        if not re.fullmatch(r"[01][uUlLzZ]*", source):
            yield "constant", f"{source} - 1", either(f"{source} - 1")


def truth(cursor, text):
    other = {"true": "false", "false": "true"}.get(text.of(cursor))
    if other:
        yield "constant", other, either(other)


def changes_to_its_opposite(cursor, text):
    """By another operator than those for conditions and returned values."""
    sides = list(cursor.get_children())
    return (cursor.kind == K.CXX_BOOL_LITERAL_EXPR
            or cursor.kind == K.UNARY_OPERATOR and text.of(cursor).startswith("!")
            or cursor.kind == K.BINARY_OPERATOR and len(sides) == 2 and sign_between(text, *sides) in ("==", "!="))


def condition(cursor, text, guards):
    """Of an if, a loop or ?:. `guards`: without an else, so that it may also never hold."""
    source = text.of(cursor)
    template = "(gaudi_mutant({number}) ? %s : static_cast<bool>({inner}))"
    if not changes_to_its_opposite(cursor, text):
        yield "condition", f"!({source})", template % escaped(f"!({source})")
    if guards:
        yield "condition", "false", template % "false"


def jump():
    """break, continue, and return without a value."""
    yield "statement", "", "{{ if (!gaudi_mutant({number})) {inner} }}"


def returned(value, text):
    source = text.of(value)
    if changes_to_its_opposite(value, text):
        return
    if value.type.get_canonical().kind == T.BOOL:
        other = f"return !({source})"
    elif source in ("{}", "nullptr", "0", "std::nullopt") or source == value.type.spelling.removeprefix("gaudi::") + "()":
        return
    else:
        other = "return {}"
    yield "return", other, "{{ if (gaudi_mutant({number})) " + escaped(other) + "; {inner} }}"


def lock():
    """One is locked that nobody else has."""
    yield "lock", "", "(gaudi_mutant({number}) ? gaudi_nobodys(__MUTEX__) : ({inner}))"
