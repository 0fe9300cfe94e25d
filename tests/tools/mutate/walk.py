# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds the mutants of source files: what runs, and neither constant expressions, nor declarations, nor what stands in a
macro's parentheses (messages and assertions)."""

import pathlib
import re

import operators
from clang_index import cindex
from mutant_site import Site
from source_text import SourceText

K = cindex.CursorKind
FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.FUNCTION_TEMPLATE, K.CONVERSION_FUNCTION}
NOT_RUN = {K.PARM_DECL, K.STATIC_ASSERT, K.TYPE_REF, K.TEMPLATE_REF, K.NAMESPACE_REF, K.TYPE_ALIAS_DECL, K.TYPEDEF_DECL,
           K.USING_DECLARATION, K.CXX_UNARY_EXPR, K.FIELD_DECL}
WITH_EFFECT = {K.CALL_EXPR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.CXX_DELETE_EXPR, K.CXX_STATIC_CAST_EXPR}
BY_KIND = {K.BINARY_OPERATOR: operators.binary, K.COMPOUND_ASSIGNMENT_OPERATOR: operators.binary,
           K.CALL_EXPR: operators.comparison_of_objects, K.UNARY_OPERATOR: operators.unary,
           K.INTEGER_LITERAL: operators.integer, K.CXX_BOOL_LITERAL_EXPR: operators.truth}


def peeled(cursor):
    """Without the nodes that have no text of their own."""
    while cursor.kind == K.UNEXPOSED_EXPR:
        inner = list(cursor.get_children())
        if len(inner) != 1:
            break
        cursor = inner[0]
    return cursor


def name_of(function):
    names = []
    while function is not None and function.kind != K.TRANSLATION_UNIT:
        if function.kind != K.NAMESPACE and function.spelling:
            names.append(function.spelling)
        function = function.semantic_parent
    return "::".join(reversed(names))


class Walk:
    """The mutants of one file, seen through one translation unit."""

    def __init__(self, cursors, path, file):
        self.file = file
        self.text = SourceText(pathlib.Path(path))
        self.found = {}
        self.function = ""
        self.macros = [(c.extent.start.offset, c.extent.end.offset) for c in cursors
                       if c.kind == K.MACRO_INSTANTIATION and self.text.of(c).endswith(")")]
        for cursor in cursors:
            self.declaration(cursor)

    def declaration(self, cursor):
        if cursor.kind in FUNCTIONS:
            self.define(cursor)
        elif cursor.kind in (K.NAMESPACE, K.STRUCT_DECL, K.CLASS_DECL, K.CLASS_TEMPLATE, K.LINKAGE_SPEC,
                             K.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, K.UNEXPOSED_DECL):
            for child in cursor.get_children():
                self.declaration(child)

    def define(self, function):
        children = list(function.get_children())
        if not children or children[-1].kind != K.COMPOUND_STMT:
            return
        head = self.text.slice(function.extent.start.offset, children[-1].extent.start.offset)
        if re.search(r"\b(constexpr|consteval)\b", head):
            return
        self.function = name_of(function)
        for child in children:
            self.visit(child)

    def add(self, start, end, mutants, source=None):
        around = [(first, last) for first, last in self.macros if first < end and start < last]
        if any(not (start <= first and last <= end) or (start, end) == (first, last) for first, last in around):
            return
        line = self.text.bytes.count(b"\n", 0, start) + 1
        source = self.text.slice(start, end) if source is None else source
        for operator, change, template in mutants:
            site = Site(self.file, self.function, operator, start, end, line, source, change, template)
            self.found[start, end, operator, change] = site

    def add_at(self, cursor, mutants):
        self.add(cursor.extent.start.offset, cursor.extent.end.offset, mutants)

    def is_in_macro(self, cursor):
        at = cursor.extent.start.offset
        return any(first <= at < last for first, last in self.macros)

    def visit(self, cursor):
        if cursor.kind in NOT_RUN or self.is_in_macro(cursor):
            return
        if cursor.kind == K.VAR_DECL and re.search(r"\b(constexpr|constinit)\b", self.text.of(cursor)):
            return
        if cursor.kind == K.IF_STMT and self.only_says(cursor):
            return
        self.change(cursor)
        children = list(cursor.get_children())
        if cursor.kind == K.CASE_STMT:
            children = children[1:]
        for child in children:
            if self.is_statement(cursor, child):
                self.statement(child)
            self.visit(child)

    def only_says(self, branch):
        """Whether all that depends on the condition is a message."""
        children = list(branch.get_children())
        body = children[-1]
        start, end = body.extent.start.offset, body.extent.end.offset
        if body.kind == K.COMPOUND_STMT:
            start, end = self.text.next_sign(start + 1)[1], end - 1
        return any(start == first and self.text.slice(last, end).strip() in ("", ";") for first, last in self.macros)

    def change(self, cursor):
        if cursor.kind in BY_KIND:
            self.add_at(cursor, BY_KIND[cursor.kind](cursor, self.text))
        elif cursor.kind in (K.IF_STMT, K.WHILE_STMT, K.FOR_STMT, K.DO_STMT, K.CONDITIONAL_OPERATOR):
            self.conditions(cursor)
        elif cursor.kind == K.RETURN_STMT:
            values = list(cursor.get_children())
            self.add_with_semicolon(cursor, operators.returned(peeled(values[0]), self.text) if values else operators.jump())
        elif cursor.kind in (K.BREAK_STMT, K.CONTINUE_STMT):
            self.add_with_semicolon(cursor, operators.jump())
        elif cursor.kind == K.VAR_DECL and operators.LOCKS.search(cursor.type.spelling):
            self.lock(cursor)

    def add_with_semicolon(self, cursor, mutants):
        sign, at = self.text.next_sign(cursor.extent.end.offset)
        if sign == ";":
            self.add(cursor.extent.start.offset, at + 1, mutants, self.text.of(cursor))

    def lock(self, variable):
        source = self.text.of(variable)
        argument = re.search(r"\((.*)\)$", source, re.S)
        if not argument:
            return
        start = variable.extent.start.offset + len(source[:argument.start(1)].encode())
        mutants = [(operator, change, template.replace("__MUTEX__", argument.group(1)))
                   for operator, change, template in operators.lock()]
        self.add(start, start + len(argument.group(1).encode()), mutants, source)

    def conditions(self, statement):
        """One of a loop or branch without a declaration in it."""
        children = list(statement.get_children())
        if statement.kind == K.FOR_STMT:
            children = self.for_condition(statement, children)
        elif statement.kind == K.DO_STMT:
            children = children[1:]
        elif statement.kind != K.CONDITIONAL_OPERATOR:
            if re.match(r"if\s+constexpr", self.text.of(statement)):
                return
            children = self.without_declaration(children)
        if not children:
            return
        guards = statement.kind == K.IF_STMT and len(children) == 2
        self.add_at(children[0], operators.condition(peeled(children[0]), self.text, guards))

    def without_declaration(self, children):
        if children[0].kind not in (K.DECL_STMT, K.VAR_DECL):
            return children
        end = children[0].extent.end.offset
        is_statement = self.text.slice(end - 1, end) == ";" or self.text.next_sign(end)[0] == ";"
        return children[1:] if is_statement else []

    def for_condition(self, statement, children):
        """The part between the two semicolons."""
        start = statement.extent.start.offset
        head = self.text.slice(start, children[-1].extent.start.offset)
        signs = [start + m.start() for m in re.finditer(";", head)]
        if len(signs) != 2:
            return []
        return [c for c in children if signs[0] < c.extent.start.offset and c.extent.end.offset <= signs[1]]

    def is_statement(self, parent, child):
        """Whether a semicolon follows the child, which is an expression."""
        if parent.kind == K.COMPOUND_STMT:
            return child.kind.is_expression()
        if parent.kind in (K.IF_STMT, K.WHILE_STMT, K.FOR_STMT, K.CXX_FOR_RANGE_STMT, K.CASE_STMT, K.DEFAULT_STMT):
            return child.kind.is_expression() and self.text.next_sign(child.extent.end.offset)[0] == ";"
        return False

    def statement(self, cursor):
        inner = peeled(cursor)
        source = self.text.of(inner)
        sides = list(inner.get_children())
        is_assignment = (inner.kind == K.BINARY_OPERATOR and len(sides) == 2
                         and operators.sign_between(self.text, *sides) == "=")
        is_step = inner.kind == K.UNARY_OPERATOR and re.match(r"\+\+|--|.*(\+\+|--)$", source, re.S)
        if inner.kind == K.CALL_EXPR and inner.spelling.startswith("assert"):
            return
        if inner.kind in WITH_EFFECT or is_assignment or is_step:
            self.add_at(cursor, [("statement", "", operators.REMOVED)])


def mutants_of(unit, files):
    """`files`: {path: how the mutants' file is called}. The unit's cursors, most of which are of the system's headers, are
    looked at once."""
    cursors = {path: [] for path in files}
    for cursor in unit.cursor.get_children():
        file = cursor.location.file
        if file is not None and file.name in cursors:
            cursors[file.name].append(cursor)
    return [site for path, name in files.items() for site in Walk(cursors[path], path, name).found.values()]
