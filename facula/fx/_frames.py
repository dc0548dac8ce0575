"""Find the line of the traced program that runs, its text, and what it does with a proxy."""

from __future__ import annotations

import dis
import itertools
import linecache
import sys

import facula

_FX_DIRECTORY = __file__.rpartition("/")[0]


def _program_frame():
    """Return the innermost frame that is not of this package."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FX_DIRECTORY):
        frame = frame.f_back
    return frame


def _where(frame=None):
    """Return " (file, line N: `text`)" of the program's line that runs."""
    frame = frame or _program_frame()
    if frame is None:
        return ""
    name, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(name, line).strip()
    return f" ({name}, line {line}: `{text}`)" if text else f" ({name}, line {line})"


def _user_stack():
    """Return the lines of the program that led here, outermost first, as Python writes them."""
    lines, frame = [], sys._getframe(2)
    home = facula.__file__.rpartition("/")[0]
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_FX_DIRECTORY):
            if code.co_name == "_trace":
                break
        elif not code.co_filename.startswith(home):
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n    {text}')
        frame = frame.f_back
    return "\n".join(reversed(lines)).strip() or None


def _is_unpacking(frame):
    """Return (whether the frame stands at `a, b = value`, into how many)."""
    code, at = frame.f_code, frame.f_lasti
    instructions = list(dis.get_instructions(code))
    found = next((i for i in instructions if i.offset == at), None)
    if found is not None and found.opname == "UNPACK_SEQUENCE":
        return found.argval
    return None


def _asserts(frame):
    """Return whether a frame stands at the test of an `assert`: behind the jump AssertionError is loaded, by an instruction
    only it has. Since Python 3.13 a comparison or TO_BOOL asks for the truth before the jump, since 3.14 NOT_TAKEN follows
    it."""
    rest = itertools.dropwhile(lambda one: one.offset != frame.f_lasti, dis.get_instructions(frame.f_code))
    words = ("COMPARE_OP", "TO_BOOL", "NOT_TAKEN", "EXTENDED_ARG")
    found = next((one for one in rest if one.opname not in words and "JUMP" not in one.opname), None)
    loads = found and (found.opname, found.argrepr)
    return loads in (("LOAD_ASSERTION_ERROR", ""), ("LOAD_COMMON_CONSTANT", "AssertionError"))
