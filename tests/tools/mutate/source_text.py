# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The bytes of a source file, as libclang counts in them."""


class SourceText:
    def __init__(self, path):
        self.bytes = path.read_bytes()

    def slice(self, start, end):
        return self.bytes[start:end].decode("utf-8", errors="replace")

    def of(self, cursor):
        return self.slice(cursor.extent.start.offset, cursor.extent.end.offset)

    def between(self, left, right):
        return self.slice(left.extent.end.offset, right.extent.start.offset)

    def next_sign(self, offset):
        """(sign, its offset): the first that is no space at or after the offset."""
        while self.bytes[offset:offset + 1].isspace():
            offset += 1
        return self.slice(offset, offset + 1), offset
