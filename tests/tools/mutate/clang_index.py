# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""libclang, as Debian's package python3-clang-14 has it, for whichever Python runs this."""

import os
import sys

try:
    import clang.cindex as cindex
except ImportError:
    # A Python that is not Debian's own does not look there.
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        import clang.cindex as cindex
    except ImportError:
        print("python3-clang-14 is not installed; util/run-tests.sh installs it")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)

OPTIONS = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD


def parse(path, arguments, unsaved_files=None):
    """The translation unit; raises ValueError where it does not compile, since sites would be missing then."""
    unit = cindex.Index.create().parse(str(path), args=arguments, unsaved_files=unsaved_files, options=OPTIONS)
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise ValueError(f"{path}: {errors[0]}")
    return unit
